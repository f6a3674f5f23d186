"""Fig. 5.11: how many prototypes m on large data, with ε = 5 for C2 and 0.5 for ProxyNCA++."""

from __future__ import annotations

from pathlib import Path

from dmltune.reproduce.drawing import BLUE, ORANGE, canvas, powers_of_two, save
from dmltune.reproduce.figures._pooling_data import AVERAGE, DATA, EPSILON, gsp
from dmltune.reproduce.figures._sweep import (
    LOSSES,
    Mean,
    Setting,
    difference,
    draw_level,
    draw_line,
    means,
    train_settings,
)
from dmltune.reproduce.request import FigureRequest
from dmltune.reproduce.study import DataChoice, FigureResult, FigureStudy, FigureTable

PROTOTYPES: tuple[int, ...] = (16, 32, 64, 128, 256)
COLOURS = dict(zip(LOSSES, (BLUE, ORANGE), strict=True))
SOP = DataChoice("sop-gsp", "Stanford Online Products, BN-Inception, as in the text", stand_in=False)
INSHOP = DataChoice("inshop-gsp", "In-shop, BN-Inception, as in the text", stand_in=False)


def run(request: FigureRequest) -> FigureResult:
    prototypes, losses = PROTOTYPES, request.rows
    if request.tiny:
        prototypes, losses = prototypes[:1], losses[-1:]
    settings: dict[Setting, tuple[str, ...]] = {}
    for loss in losses:
        settings[loss, "gap"] = (*LOSSES[loss], *AVERAGE)
        settings |= {(loss, m): gsp(loss, prototypes=m) for m in prototypes}
    scores = means(train_settings(request, settings))
    rows = [(str(s[0]), s[1], m.mean, m.spread, m.seeds) for s, m in scores.items()]
    table = FigureTable("", ("loss", "m", "MAP@R %", "sd %", "seeds"), rows)
    picture = draw(scores, losses, request.label, request.folder / "fig5.11.png")
    return FigureResult([table], [picture], answers(scores, losses))


def answers(scores: dict[Setting, Mean], losses: tuple[str, ...]) -> list[str]:
    lines = []
    for loss in losses:
        by_m = {int(s[1]): mean for s, mean in scores.items() if s[0] == loss and s[1] != "gap"}
        if len(by_m) > 1:
            values = [by_m[m].mean for m in sorted(by_m)]
            large = [by_m[m].mean for m in sorted(by_m) if m >= 64]
            lines.append(
                f"{loss}: {100 * (max(values) - min(values)):.1f} points between the best and the worst m, "
                f"{100 * (max(large) - min(large)):.1f} from m = 64 on."
            )
            if (loss, "gap") in scores and 64 in by_m:
                lines[-1] += f" m = 64 against GAP: {difference(by_m[64], scores[loss, 'gap'])}."
    return [*lines, "The text: any m ≥ 64 gains on GAP, and more of them add little."]


def draw(scores: dict[Setting, Mean], losses: tuple[str, ...], label: str, path: Path) -> Path:
    figure, axes = canvas(len(losses))
    for axis, loss in zip(axes[0], losses, strict=True):
        ms = sorted(int(s[1]) for s in scores if s[0] == loss and s[1] != "gap")
        draw_line(axis, ms, [scores[loss, m] for m in ms], COLOURS[loss], f"{loss} + GSP")
        if (loss, "gap") in scores:
            draw_level(axis, scores[loss, "gap"], "GAP")
        powers_of_two(axis, ms)
        axis.set_xlabel("m, prototypes")
        axis.set_ylabel("MAP@R on validation classes, %")
        axis.set_title(f"{loss}, ε = {EPSILON[loss]:g}", fontsize=9)
        axis.legend(fontsize=9)
    return save(figure, path, f"Fig. 5.11 on {label}")


STUDY = FigureStudy(
    about="How many prototypes on large data, with the losses C2 and ProxyNCA++",
    source="thesis, Fig. 5.11",
    run=run,
    data={"sop": SOP, "inshop": INSHOP, **{label: DATA[label] for label in ("birds", "collages", "glyphs")}},
    rows=tuple(LOSSES),
)
