"""XBM: the size of the memory against the score, with the losses C1 and C2.

The thesis takes two sizes, S and L: as many embeddings as one proxy a class has, and as eight (four on large
data). Here the size is a share of the training images; without a memory the loss is that of the batch alone.
"""

from __future__ import annotations

from pathlib import Path

from dmltune.reproduce.drawing import BLUE, ORANGE, canvas, powers_of_two, save
from dmltune.reproduce.figures._data import BIRDS, CUB, GLYPHS
from dmltune.reproduce.figures._points import images_of
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
from dmltune.reproduce.study import DataChoice, FigureResult, FigureStudy, FigureTable

SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
START_STEP = 1000  # of the text; a quarter of the training where that is shorter
LOSSES = {"C1": "loss=contrastive_cosine", "C2": "loss=contrastive"}
COLOURS = {"C1": ORANGE, "C2": BLUE}
SOP = DataChoice("sop", "Stanford Online Products, BN-Inception, as in the text", stand_in=False)
INSHOP = DataChoice("inshop", "In-shop, BN-Inception, as in the text", stand_in=False)
Scores = dict[Setting, Mean]


def run(request: FigureRequest) -> FigureResult:
    experiment = request.experiment()
    images = len(images_of(request, experiment, "train")[1])
    start = min(START_STEP, experiment.max_steps // 4)
    settings: dict[Setting, tuple[str, ...]] = {}
    for loss in request.rows[:1] if request.tiny else request.rows:
        settings[loss, 0] = (LOSSES[loss], "references=batch")
        for share in SHARES[:1] if request.tiny else SHARES:
            size = max(1, round(share * images))
            memory = f"references={{name: xbm, size: {size}, start_step: {start}}}"
            settings[loss, size] = (LOSSES[loss], memory)
    scores = means(train_settings(request, settings))
    rows = [(str(s[0]), int(s[1]), int(s[1]) / images, m.mean, m.spread, m.seeds) for s, m in scores.items()]
    columns = ("loss", "memory", "of the images %", "MAP@R %", "sd %", "seeds")
    picture = draw(scores, images, request.label, request.folder / "xbm-memory.png")
    return FigureResult([FigureTable("", columns, rows)], [picture], answers(scores, images))


def answers(scores: Scores, images: int) -> list[str]:
    lines = []
    for loss in LOSSES:
        sizes = {int(s[1]): mean for s, mean in scores.items() if s[0] == loss and s[1]}
        if sizes and (loss, 0) in scores:
            best = max(sizes, key=lambda size: sizes[size].mean)
            lines.append(
                f"{loss}: the best memory holds {best} points, {100 * best / images:.0f} % of the images: "
                f"{difference(sizes[best], scores[loss, 0])} against none; the largest: "
                f"{difference(sizes[max(sizes)], scores[loss, 0])}."
            )
    return [*lines, "Table 3.1 (128 dimensions), C1 and C1+XBM-L: CUB 19.1 and 19.8, SOP 36.5 and 47.4 %."]


def draw(scores: Scores, images: int, label: str, path: Path) -> Path:
    figure, axes = canvas(1, width=5.0)
    axis = axes[0][0]
    for loss in LOSSES:
        sizes = sorted(int(s[1]) for s in scores if s[0] == loss and s[1])
        if sizes:
            shares = [100 * size / images for size in sizes]
            draw_line(axis, shares, [scores[loss, size] for size in sizes], COLOURS[loss], f"{loss} + XBM")
        if (loss, 0) in scores:
            draw_level(axis, scores[loss, 0], f"{loss} alone", COLOURS[loss])
    powers_of_two(axis, [100 * share for share in SHARES])
    axis.set_xlabel("memory, % of the training images")
    axis.set_ylabel("MAP@R on validation classes, %")
    axis.legend(fontsize=8)
    return save(figure, path, f"XBM: size of the memory, on {label}")


STUDY = FigureStudy(
    about="The size of the cross-batch memory against the score, with the losses C1 and C2",
    source="thesis, §3.3.2.1 (XBM, memory sizes S and L)",
    run=run,
    data={"sop": SOP, "inshop": INSHOP, "cub": CUB, "birds": BIRDS, "glyphs": GLYPHS},
    rows=tuple(LOSSES),
)
