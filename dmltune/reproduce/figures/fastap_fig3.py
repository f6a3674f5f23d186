"""FastAP, Fig. 3: learning curves at four batch sizes, by epochs: do larger batches converge faster?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from dmltune.reproduce.drawing import COLOURS, canvas, mean_and_spread, save
from dmltune.reproduce.figures import _data
from dmltune.reproduce.figures._points import images_of
from dmltune.reproduce.figures._sweep import Cells, Setting, train_settings
from dmltune.reproduce.request import FigureRequest
from dmltune.reproduce.study import DataChoice, FigureResult, FigureStudy, FigureTable

SIZES = (32, 64, 128, 256)
EPOCHS, STAND_IN_EPOCHS = 50, 20
NEAR = 0.95  # of the best R@1 of all curves
SOP = DataChoice(
    "sop-fastap", "Stanford Online Products, ResNet-18, hard batches, as in the text", stand_in=False
)
INSHOP = DataChoice("inshop-fastap", "In-shop, ResNet-18, hard batches, as in the text", stand_in=False)
_FASTAP = ("loss=fastap", "batch.samples_per_class=all")
GLYPHS = DataChoice(
    "glyphs",
    "160 rendered characters train and 80 validate, 16 pixels, ResNet-20, batches of random classes",
    ("data.classes=240", "data.size=16", *_FASTAP),
)
BIRDS = replace(_data.BIRDS, overrides=(*_data.BIRDS.overrides, *_FASTAP))


@dataclass(frozen=True)
class Curve:
    """Mean R@1 over the seeds after each epoch, from step 0 on."""

    epochs: tuple[float, ...]
    recall: tuple[float, ...]

    def reaches(self, level: float) -> float | None:
        """Return the epochs until R@1 is at this level, linear between validations; None if it never is."""
        points = list(zip(self.epochs, self.recall, strict=True))
        if points[0][1] >= level:
            return points[0][0]
        for (before, low), (after, high) in pairwise(points):
            if high >= level:
                return before + (after - before) * (level - low) / (high - low)
        return None


def run(request: FigureRequest) -> FigureResult:
    images = len(images_of(request, request.experiment(), "train")[1])
    epochs = STAND_IN_EPOCHS if request.data.stand_in else EPOCHS
    settings: dict[Setting, tuple[str, ...]] = {}
    for size in (8,) if request.tiny else SIZES:
        each = 1 if request.tiny else math.ceil(images / size)
        steps = each * (2 if request.tiny else epochs)
        settings["batch", size] = (
            f"batch.size={size}",
            f"max_steps={steps}",
            f"validate_every={each}",
            "patience=null",
        )
    curves = curves_of(train_settings(request, settings), images)
    level = NEAR * max(max(curve.recall) for curve in curves.values())
    rows = [
        (size, curve.recall[-1], max(curve.recall), curve.reaches(level)) for size, curve in curves.items()
    ]
    columns = ("batch size", "last R@1 %", "best R@1 %", f"epochs to {100 * level:.1f} %")
    picture = draw(curves, level, request.label, request.folder / "fastap-fig3.png")
    return FigureResult([FigureTable("", columns, rows)], [picture], answers(curves, level))


def curves_of(cells: Cells, images: int) -> dict[int, Curve]:
    curves = {}
    for setting, group in cells.items():
        size = int(setting[1])
        epochs = tuple(step * size / images for step in group[0].column("step"))
        columns = zip(*(cell.column("precision_at_1") for cell in group), strict=True)
        curves[size] = Curve(epochs, tuple(mean_and_spread(values)[0] for values in columns))
    return curves


def answers(curves: Mapping[int, Curve], level: float) -> list[str]:
    reached = {size: curve.reaches(level) for size, curve in curves.items()}
    parts = [f"{size}: {'never' if value is None else f'{value:.1f}'}" for size, value in reached.items()]
    return [
        f"Epochs until R@1 is {100 * level:.1f} % (95 % of the best), by batch size: {', '.join(parts)}.",
        "The text: larger batches converge faster, all within 50 epochs.",
    ]


def draw(curves: Mapping[int, Curve], level: float, label: str, path: Path) -> Path:
    figure, axes = canvas(1, width=5.0)
    axis = axes[0][0]
    for (size, curve), colour in zip(curves.items(), COLOURS, strict=False):
        shown = [100 * value for value in curve.recall]
        axis.plot(curve.epochs, shown, color=colour, lw=1.4, marker=".", label=f"{size} images")
    axis.axhline(100 * level, color="black", lw=0.8, ls=":")
    axis.set_xlabel("epochs")
    axis.set_ylabel("R@1 on validation classes, %")
    axis.legend(fontsize=9)
    return save(figure, path, f"FastAP, Fig. 3 on {label}")


STUDY = FigureStudy(
    about="Learning curves of FastAP at batch sizes from 32 to 256",
    source="Deep Metric Learning to Rank, supplement, Fig. 3",
    run=run,
    data={"sop": SOP, "inshop": INSHOP, "birds": BIRDS, "glyphs": GLYPHS},
)
