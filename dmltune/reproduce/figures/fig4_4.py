"""Fig. 4.4: average pooling (GAP) beside the convex combination of prototypes (PCC), and its bound δ.

The text shows images of three classes in the plane. Here also every image, and other numbers of prototypes.
The data `birds` are maps of EfficientNet-Lite0 with its ImageNet weights: 1,280 dimensions, nothing trained.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from matplotlib.axes import Axes

from dmltune.reproduce.drawing import BLUE, GREY, ORANGE, RED, canvas, save
from dmltune.reproduce.figures._local_features import (
    DATA,
    PROTOTYPES,
    SHARED,
    LocalFeatures,
    local_features,
    trained_features,
)
from dmltune.reproduce.request import FigureRequest
from dmltune.reproduce.study import DataChoice, FigureResult, FigureStudy, FigureTable
from dmltune.train.build import build_embedder, training_images

NUMBERS = (8, 16, 32, PROTOTYPES, 96, 192)
BIRDS_EACH, BIRD_CLASSES = 8, 40
BIRDS = DataChoice(
    "cub-lite",
    f"maps of {BIRD_CLASSES} birds, EfficientNet-Lite0 with ImageNet weights, 1,280 dimensions; not trained",
    ("data.size=160", f"data.classes={BIRD_CLASSES}", "embedding.dim=none"),
)
Bound = tuple[float, float, float]  # δ, mean and largest error


def run(request: FigureRequest) -> FigureResult:
    local = bird_features(request) if request.label == "birds" else trained_features(request)
    numbers = NUMBERS[:2] if request.tiny else NUMBERS
    covers = {count: local.covered_by(count) for count in numbers}
    bounds = {count: bound(cover) for count, cover in covers.items()}
    broken = sum(int((cover.errors_B() > cover.radius).sum()) for cover in covers.values())
    rows = [(count, *values, values[2] / values[0]) for count, values in bounds.items()]
    columns = ("prototypes", "δ", "mean ‖PCC − GAP‖", "largest", "largest / δ")
    answers = [
        f"‖PCC − GAP‖ is above δ in {broken} of {len(numbers) * len(local.labels_B):,} cases (images × "
        "numbers of prototypes): proposition 4.2.1 allows none.",
        *_active(local),
    ]
    picture = draw(local, bounds, request.label, request.folder / f"fig4.4-{request.label}.png")
    return FigureResult([FigureTable("", columns, rows)], [picture], answers)


def bird_features(request: FigureRequest) -> LocalFeatures:
    experiment = request.experiment()
    images = training_images(experiment, request.locations.absolute_root)
    embedder = build_embedder(experiment, "l2")
    return local_features(embedder, images, experiment.data.size, 1 if request.tiny else BIRDS_EACH)


def bound(local: LocalFeatures) -> Bound:
    errors_B = local.errors_B()
    return local.radius, float(errors_B.mean()), float(errors_B.max())


def _active(local: LocalFeatures) -> list[str]:
    """Return how many prototypes an image uses."""
    used = (local.histograms_BM() > 0).sum(1).double()
    return [f"Of {len(local.prototypes_MD)} prototypes an image uses {float(used.mean()):.1f} on average."]


def draw(local: LocalFeatures, bounds: Mapping[int, Bound], label: str, path: Path) -> Path:
    """Draw one image of three classes in the first two dimensions or principal axes, and the bound."""
    figure, axes = canvas(4, width=3.3, height=3.5)
    axes_D2 = torch.eye(2)
    flat_XD = local.features_BND.flatten(0, 1)
    if flat_XD.shape[1] > 2:
        axes_D2 = torch.pca_lowrank(flat_XD, 2)[2]
    for axis, image in zip(axes[0], _one_of_three_classes(local), strict=False):
        draw_image(axis, local, image, axes_D2)
    axes[0][0].legend(fontsize=7)
    curve = axes[0][3]
    counts = list(bounds)
    for index, (name, colour) in enumerate((("δ", GREY), ("mean", BLUE), ("largest", ORANGE))):
        curve.plot(
            counts, [values[index] for values in bounds.values()], marker="o", color=colour, label=name
        )
    curve.set_xscale("log")
    curve.set_yscale("log")
    curve.set_xticks(counts, [str(count) for count in counts], fontsize=7)
    curve.minorticks_off()
    curve.set_xlabel("prototypes")
    curve.set_title("‖PCC − GAP‖ of all images, and δ", fontsize=9)
    curve.legend(fontsize=8)
    return save(figure, path, f"Fig. 4.4 on {label}")


def _one_of_three_classes(local: LocalFeatures) -> list[int]:
    last = len(local.names) - 1
    return [int((local.labels_B == label).nonzero()[0]) for label in (0, last // 2, last)]


def draw_image(axis: Axes, local: LocalFeatures, image: int, axes_D2: torch.Tensor) -> None:
    every = (local.features_BND.flatten(0, 1)[::7] @ axes_D2).numpy()
    own_ND = local.features_BND[image]
    gap, pcc = own_ND.mean(0), local.histograms_BM()[image] @ local.prototypes_MD
    used = local.histograms_BM()[image] > 0
    axis.scatter(every[:, 0], every[:, 1], color="#dddddd", s=2, lw=0)
    for points, colour, marker, size, name in (
        (own_ND, BLUE, ".", 14, "local features"),
        (local.prototypes_MD[used], "black", "x", 22, "their prototypes"),
        (gap.unsqueeze(0), RED, "o", 46, "GAP"),
        (pcc.unsqueeze(0), ORANGE, "^", 46, "PCC"),
    ):
        drawn = (points @ axes_D2).numpy()
        axis.scatter(drawn[:, 0], drawn[:, 1], c=colour, marker=marker, s=size, lw=1, label=name)
    error = float(torch.linalg.vector_norm(gap - pcc))
    axis.set_title(f"{local.names[int(local.labels_B[image])][:32]}: error {error:.3f}", fontsize=7)
    axis.set_aspect("equal", adjustable="datalim")


STUDY = FigureStudy(
    about="Average pooling beside the convex combination of prototypes; its error never exceeds δ",
    source="thesis, Fig. 4.4",
    run=run,
    data={**DATA, "birds": BIRDS},
    trainings=SHARED,
)
