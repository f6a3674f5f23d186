"""SFT, Fig. 6: when is the rotation a translation? ‖Aσ − σ‖ of several backbones.

(a) The distribution of ‖Aσ − σ‖ over 10,000 draws for each backbone, (b) its mean, (c) the energy of σ in the
subspace that holds a given share of the energy of μ (eq. 8). 0 in (a) means that rotation and translation do
the same. The points are those of the validation classes, normalised as they are embedded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from dmltune.core.analysis import overlap_curve, rotation_shift
from dmltune.reproduce.drawing import COLOURS, canvas, save
from dmltune.reproduce.figures import _sft_data
from dmltune.reproduce.figures._points import points_of
from dmltune.reproduce.request import FigureRequest
from dmltune.reproduce.study import FigureResult, FigureStudy, FigureTable, missing_weights

RESNETS = ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152")
SMALL = {"resnet20": "backbone=resnet20", "resnetv2_20": "backbone=resnetv2_20"}
ENERGY = 0.99


@dataclass(frozen=True)
class Shape:
    """Draws of ‖Aσ − σ‖, and the two shares of figure 6 (c) for 1 … D directions."""

    shift_X: Tensor
    energy_D: Tensor
    overlap_D: Tensor

    @property
    def overlap(self) -> float:
        """Return the energy of σ in the fewest directions that hold 99 % of that of μ."""
        place = min(int((self.energy_D < ENERGY).sum()), len(self.overlap_D) - 1)
        return float(self.overlap_D[place])


def run(request: FigureRequest) -> FigureResult:
    experiments, missing = {}, []
    for name, change in backbones_of(request).items():
        experiment = request.experiment(*_sft_data.BASELINE, change)
        if reason := missing_weights(experiment, request.locations.data_root):
            missing.append(f"{name} was left out: {reason}")
        else:
            experiments[name] = experiment
    cells = request.train({f"{name}-seed0": experiment for name, experiment in experiments.items()})
    shapes = {}
    for name, experiment in experiments.items():
        if cell := cells.get(f"{name}-seed0"):
            emb_ND, labels_N = points_of(request, experiment, request.embedder(cell))
            energy_D, overlap_D = overlap_curve(emb_ND, labels_N)
            shapes[name] = Shape(rotation_shift(emb_ND, labels_N).double(), energy_D, overlap_D)
    rows = [
        (name, float(s.shift_X.mean()), float(s.shift_X.median()), s.overlap) for name, s in shapes.items()
    ]
    columns = ("backbone", "mean of ‖Aσ − σ‖", "median", "σ in the subspace of μ %")
    picture = draw(shapes, request)
    return FigureResult([FigureTable("", columns, rows)], [picture], [*answers(rows), *missing])


def backbones_of(request: FigureRequest) -> Mapping[str, str]:
    """Return backbone → override: ResNets with the weights of the print, small networks without any."""
    if request.data.experiment().backbone.weights == "none":
        chosen = {**SMALL, "resnet18": "backbone={name: torchvision/resnet18, weights: none}"}
        return dict(list(chosen.items())[:1]) if request.tiny else chosen
    return {name: f"backbone={{name: torchvision/{name}, weights: imagenet}}" for name in RESNETS}


def answers(rows: list[tuple[str, float, float, float]]) -> list[str]:
    lines = [
        f"{name}: ‖Aσ − σ‖ is {mean:.3f} on average, and {100 * share:.0f} % of the energy of σ lies in the "
        f"subspace with {100 * ENERGY:.0f} % of that of μ."
        for name, mean, _, share in rows
    ]
    return [*lines, "The text: deeper networks have smaller values; with ResNet-50 10 % of the energy."]


def draw(shapes: Mapping[str, Shape], request: FigureRequest) -> Path:
    figure, axes = canvas(3, width=3.8)
    spread, bars, curve = axes[0]
    limit = max(float(shape.shift_X.max()) for shape in shapes.values()) or 1.0
    edges = torch.linspace(0, limit, 51)
    for (name, shape), colour in zip(shapes.items(), COLOURS, strict=False):
        counts = torch.histc(shape.shift_X, 50, 0, limit)
        spread.stairs((counts / counts.sum()).tolist(), edges.tolist(), color=colour, lw=1.3, label=name)
        curve.plot(100 * shape.energy_D, 100 * shape.overlap_D, color=colour, lw=1.3, label=name)
    spread.set_xlabel("‖Aσ − σ‖")
    spread.set_ylabel("share of the draws")
    spread.set_title("(a)", fontsize=9)
    bars.bar(list(shapes), [float(s.shift_X.mean()) for s in shapes.values()], color=COLOURS[: len(shapes)])
    bars.tick_params(axis="x", labelrotation=20)
    bars.set_ylabel("mean of ‖Aσ − σ‖")
    bars.set_title("(b)", fontsize=9)
    curve.set_xlabel("energy of μ, %")
    curve.set_ylabel("energy of σ in the same subspace, %")
    curve.set_title("(c)", fontsize=9)
    curve.legend(fontsize=8)
    return save(figure, request.folder / "sft-fig6.png", f"SFT, Fig. 6 on {request.label}")


STUDY = FigureStudy(
    about="When rotation and translation do the same: ‖Aσ − σ‖ of several backbones",
    source="Spherical Feature Transform, Fig. 6",
    run=run,
    data={"cub": _sft_data.CUB, "cars": _sft_data.CARS, "glyphs": _sft_data.GLYPHS},
)
