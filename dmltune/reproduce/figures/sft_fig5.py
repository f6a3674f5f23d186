"""SFT, Fig. 5: the batch size without and with the transform, and the weight λ of the generated points."""

from __future__ import annotations

from pathlib import Path

from dmltune.reproduce.drawing import BLUE, ORANGE, canvas, powers_of_two, save
from dmltune.reproduce.figures import _sft_data
from dmltune.reproduce.figures._sweep import (
    Mean,
    Setting,
    difference,
    draw_level,
    draw_line,
    means,
    train_settings,
)
from dmltune.reproduce.request import FigureRequest
from dmltune.reproduce.study import FigureResult, FigureStudy, FigureTable

SIZES: tuple[int, ...] = (30, 60, 120, 240)
WEIGHTS: tuple[float, ...] = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
USUAL = 60
METHODS = {"baseline": _sft_data.BASELINE, "SFT": _sft_data.SFT}
COLOURS = {"baseline": ORANGE, "SFT": BLUE}
BATCH, WEIGHT = "batch", "lambda"
Scores = dict[Setting, Mean]


def run(request: FigureRequest) -> FigureResult:
    sizes, weights, usual = ((6,), WEIGHTS[:1], 6) if request.tiny else (SIZES, WEIGHTS, USUAL)
    settings: dict[Setting, tuple[str, ...]] = {}
    if BATCH in request.rows:
        for name, changes in METHODS.items():
            settings |= {
                (name, "batch", size): (*changes, f"batch.size={size}", "batch.samples_per_class=3")
                for size in sizes
            }
    if WEIGHT in request.rows:
        batch = (f"batch.size={usual}", "batch.samples_per_class=3")
        settings["baseline", "batch", usual] = (*METHODS["baseline"], *batch)
        settings |= {
            ("SFT", "weight", w): (*METHODS["SFT"], f"transform.weight={w}", *batch) for w in weights
        }
    scores = means(train_settings(request, settings), lambda cell: cell.best("precision_at_1"))
    rows = [(str(s[0]), str(s[1]), s[2], m.mean, m.spread, m.seeds) for s, m in scores.items()]
    table = FigureTable("", ("method", "varied", "value", "R@1 %", "sd %", "seeds"), rows)
    picture = draw(scores, request.label, request.folder / "sft-fig5.png")
    return FigureResult([table], [picture], answers(scores))


def of(scores: Scores, name: str, varied: str) -> dict[float, Mean]:
    """Return value → mean of one curve, in the order of the values."""
    own = {float(s[2]): mean for s, mean in scores.items() if s[:2] == (name, varied)}
    return dict(sorted(own.items()))


def answers(scores: Scores) -> list[str]:
    lines = []
    base, sft = (of(scores, name, "batch") for name in METHODS)
    if len(base) > 1 and sft:
        small, large = min(sft), max(base)
        lines.append(
            f"SFT with batches of {small:g} against the baseline with {large:g}: "
            f"{difference(sft[small], base[large])} of R@1 (the text: SFT at 30 beats the baseline at 240)."
        )
    if weights := of(scores, "SFT", "weight"):
        best = max(weights, key=lambda weight: weights[weight].mean)
        line = f"The best weight is λ = {best:g}"
        if USUAL in base:
            line += f", {difference(weights[best], base[USUAL])} against the baseline; λ = {max(weights):g}: "
            line += f"{difference(weights[max(weights)], base[USUAL])}"
        lines.append(f"{line} (the text: the score rises and then falls with λ; 0.2 is used).")
    return lines


def draw(scores: Scores, label: str, path: Path) -> Path:
    parts = [varied for varied in ("batch", "weight") if any(s[1] == varied for s in scores)]
    figure, axes = canvas(len(parts))
    for axis, varied in zip(axes[0], parts, strict=True):
        for name in METHODS:
            curve = of(scores, name, varied)
            if varied == "weight" and name == "baseline":
                if (usual := of(scores, name, "batch")) and USUAL in usual:
                    draw_level(axis, usual[USUAL], "baseline", COLOURS[name])
            elif curve:
                draw_line(axis, list(curve), list(curve.values()), COLOURS[name], name)
                powers_of_two(axis, list(curve))
        axis.set_xlabel("images in a batch, 3 of a class" if varied == "batch" else "λ")
        axis.set_ylabel("R@1 on validation classes, %")
        axis.legend(fontsize=9)
    return save(figure, path, f"SFT, Fig. 5 on {label}")


STUDY = FigureStudy(
    about="Batch size with and without the transform, and its weight λ",
    source="Spherical Feature Transform, Fig. 5",
    run=run,
    data={"cars": _sft_data.CARS, "cub": _sft_data.CUB, "birds": _sft_data.BIRDS, "glyphs": _sft_data.GLYPHS},
    rows=(BATCH, WEIGHT),
)
