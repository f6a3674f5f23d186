"""Fig. 5.10: how many prototypes m, and which smoothing ε, for a loss without and a loss with proxies."""

from __future__ import annotations

from pathlib import Path

from dmltune.reproduce.drawing import canvas, save
from dmltune.reproduce.figures._pooling_data import AVERAGE, DATA, gsp
from dmltune.reproduce.figures._sweep import LOSSES, Mean, Setting, difference, means, train_settings
from dmltune.reproduce.request import FigureRequest
from dmltune.reproduce.study import FigureResult, FigureStudy, FigureTable

PROTOTYPES: tuple[int, ...] = (16, 32, 64, 128)
EPSILONS: tuple[float, ...] = (0.5, 1.0, 5.0, 20.0)
Scores = dict[Setting, Mean]


def run(request: FigureRequest) -> FigureResult:
    prototypes, epsilons, losses = PROTOTYPES, EPSILONS, request.rows
    if request.tiny:
        prototypes, epsilons, losses = prototypes[:1], epsilons[:1], losses[:1]
    settings: dict[Setting, tuple[str, ...]] = {}
    for loss in losses:
        settings[loss, "gap"] = (*LOSSES[loss], *AVERAGE)
        settings |= {(loss, m, e): gsp(loss, prototypes=m, epsilon=e) for m in prototypes for e in epsilons}
    scores = means(train_settings(request, settings))
    tables = [_table(loss, scores, epsilons) for loss in losses]
    picture = draw(scores, losses, request.label, request.folder / "fig5.10.png")
    return FigureResult(tables, [picture], answers(scores, losses))


def _table(loss: str, scores: Scores, epsilons: tuple[float, ...]) -> FigureTable:
    ms = sorted({int(s[1]) for s in scores if s[0] == loss and len(s) == 3})
    rows = [(f"m = {m}", *(_mean(scores, (loss, m, e)) for e in epsilons)) for m in ms]
    rows.append(("GAP", *([_mean(scores, (loss, "gap"))] + [None] * (len(epsilons) - 1))))
    return FigureTable(f"MAP@R, loss {loss}", ("", *(f"ε = {e:g} %" for e in epsilons)), rows)


def _mean(scores: Scores, setting: Setting) -> float | None:
    return scores[setting].mean if setting in scores else None


def answers(scores: Scores, losses: tuple[str, ...]) -> list[str]:
    lines = []
    for loss in losses:
        grid = {setting: mean for setting, mean in scores.items() if setting[0] == loss and len(setting) == 3}
        if not grid:
            continue
        best = max(grid, key=lambda setting: grid[setting].mean)
        line = f"{loss}: best at m = {best[1]}, ε = {best[2]:g}"
        if (loss, "gap") in scores:
            line += f", {difference(grid[best], scores[loss, 'gap'])} against GAP"
        lines.append(f"{line} (the best of {len(grid)} is chosen: it flatters).")
    return [*lines, "The text: m = 64 for both; ε = 5 for C2 and 0.5 for PNCA."]


def draw(scores: Scores, losses: tuple[str, ...], label: str, path: Path) -> Path:
    figure, axes = canvas(len(losses), width=4.0, height=3.4)
    for axis, loss in zip(axes[0], losses, strict=True):
        grid = [setting for setting in scores if setting[0] == loss and len(setting) == 3]
        ms, epsilons = (sorted({float(setting[place]) for setting in grid}) for place in (1, 2))
        values = [[100 * (_mean(scores, (loss, int(m), e)) or float("nan")) for e in epsilons] for m in ms]
        image = axis.imshow(values, cmap="viridis", aspect="auto", origin="lower")
        middle = sum(image.get_clim()) / 2
        for y, row in enumerate(values):
            for x, value in enumerate(row):
                colour = "black" if value > middle else "white"
                axis.text(x, y, f"{value:.1f}", ha="center", va="center", fontsize=8, color=colour)
        axis.set_xticks(range(len(epsilons)), [f"{e:g}" for e in epsilons])
        axis.set_yticks(range(len(ms)), [f"{m:g}" for m in ms])
        axis.set_xlabel("ε")
        axis.set_ylabel("m, prototypes")
        baseline = _mean(scores, (loss, "gap"))
        axis.set_title(f"{loss}" + ("" if baseline is None else f" (GAP {100 * baseline:.1f})"), fontsize=9)
    return save(figure, path, f"Fig. 5.10 on {label}: MAP@R on validation classes, %")


STUDY = FigureStudy(
    about="Prototypes m × smoothing ε of generalized sum pooling, with the losses C2 and ProxyNCA++",
    source="thesis, Fig. 5.10",
    run=run,
    data=DATA,
    rows=tuple(LOSSES),
)
