"""Fig. 3.7: (a) losses alone, with fixed proxies, and with alternating ones; (b) steps per projection.

Fixed proxies (Loss-Proxy) are CCP that never ends its first projection: the proxies are picked once and
learned, and λ never acts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from dmltune.reproduce.drawing import BLUE, GREY, ORANGE, canvas, mean_and_spread, save
from dmltune.reproduce.figures._data import CCP_DATA
from dmltune.reproduce.figures.fig3_4 import LOSSES
from dmltune.reproduce.request import FigureRequest, Seeds
from dmltune.reproduce.study import FigureResult, FigureStudy, FigureTable
from dmltune.reproduce.trainings import CellResult

NEVER = 10**6
VARIANTS = {
    "": ("references=batch",),
    "-Proxy": ("references=ccp", f"references.patience={NEVER}", "references.longest=null"),
    "+CCP": ("references=ccp",),
}


def run(request: FigureRequest) -> FigureResult:
    losses = request.rows[1:2] if request.tiny else request.rows
    plan = {loss + name: (LOSSES[loss], *changes) for loss in losses for name, changes in VARIANTS.items()}
    trained = request.train_each(plan)
    scores = {
        name: mean_and_spread([cell.score for cell in cells.values()]) for name, cells in trained.items()
    }
    steps = [
        count
        for name, cells in trained.items()
        if name.endswith("+CCP")
        for cell in cells.values()
        for count in steps_per_projection(cell)
    ]
    rows = [
        (name, *scores[name], len(trained[name]), last_projection(trained[name].values())) for name in scores
    ]
    table = FigureTable("", ("method", "MAP@R %", "sd %", "seeds", "projections"), rows)
    longest = request.experiment("references=ccp").references.parameters["longest"]
    picture = draw(scores, steps, request.label, request.folder / "fig3.7.png")
    return FigureResult([table], [picture], [*compared(trained), *distribution(steps, longest)])


def steps_per_projection(cell: CellResult) -> list[int]:
    """Return the length of every projection that ended; the last one did not."""
    last: dict[float, float] = {}
    for point in cell.curve:
        if "projection" in point:
            last[point["projection"]] = point["steps_in_projection"]
    return [int(last[number]) for number in sorted(last)[:-1]]


def last_projection(cells: Iterable[CellResult]) -> str:
    return " ".join(f"{cell.curve[-1]['projection']:.0f}" for cell in cells if "projection" in cell.curve[-1])


def compared(trained: Seeds) -> list[str]:
    gains = {
        loss: mean_and_spread([cell.score for cell in trained[f"{loss}+CCP"].values()])[0]
        - mean_and_spread([cell.score for cell in trained[f"{loss}-Proxy"].values()])[0]
        for loss in LOSSES
        if f"{loss}+CCP" in trained and f"{loss}-Proxy" in trained
    }
    if not gains:
        return []
    listed = ", ".join(f"{loss} {100 * gain:+.1f}" for loss, gain in gains.items())
    return [f"Alternating against fixed proxies, points of MAP@R: {listed}. The text: all gain."]


def distribution(steps: Sequence[int], longest: int | None) -> list[str]:
    if not steps:
        return ["No projection ended: train longer, or validate more often."]
    ordered = sorted(steps)
    limit = f" (none has more than {longest} validations on these data)" if longest else ""
    return [
        f"{len(steps)} projections ended after {ordered[0]} to {ordered[-1]} steps, the median one after "
        f"{ordered[len(ordered) // 2]}{limit}."
    ]


def draw(scores: Mapping[str, tuple[float, float]], steps: Sequence[int], label: str, path: Path) -> Path:
    figure, axes = canvas(2, width=4.4)
    bars, lengths = axes[0]
    losses = [loss for loss in LOSSES if any(loss + variant in scores for variant in VARIANTS)]
    names = {"": "loss alone", "-Proxy": "fixed proxies", "+CCP": "CCP"}
    for place, (variant, colour) in enumerate(zip(VARIANTS, (GREY, ORANGE, BLUE), strict=True)):
        present = [(i, scores[loss + variant]) for i, loss in enumerate(losses) if loss + variant in scores]
        bars.bar(
            [i + (place - 1) * 0.27 for i, _ in present],
            [100 * mean for _, (mean, _) in present],
            yerr=[100 * spread for _, (_, spread) in present],
            width=0.25, color=colour, label=names[variant], error_kw={"lw": 0.9, "capsize": 2},
        )  # fmt: skip
    lowest = min(mean - spread for mean, spread in scores.values())
    bars.set_ylim(bottom=max(0.0, 100 * lowest - 5))
    bars.set_xticks(range(len(losses)), losses)
    bars.set_ylabel("MAP@R on validation classes, %")
    bars.legend(fontsize=8)
    bars.set_title("(a) alternating proxies", fontsize=9)
    counts = {length: steps.count(length) for length in sorted(set(steps))}
    if len(counts) <= 20:  # a training is validated at a few steps alone
        lengths.bar(range(len(counts)), list(counts.values()), color=BLUE)
        lengths.set_xticks(range(len(counts)), [str(length) for length in counts])
    else:
        lengths.hist(steps, bins=20, color=BLUE)
    lengths.set_xlabel("steps of a projection")
    lengths.set_ylabel("projections")
    lengths.set_title("(b) steps per projection", fontsize=9)
    return save(figure, path, f"Fig. 3.7 on {label}")


STUDY = FigureStudy(
    about="Losses alone, with fixed and with alternating proxies; steps per projection",
    source="thesis, Fig. 3.7",
    run=run,
    data=CCP_DATA,
    rows=tuple(LOSSES),
)
