"""Fig. 5.6: what eight prototypes stand for, with and without the zero-shot loss.

ProxyNCA++ with GSP, eight prototypes. The attributes of each class are shown, the dominant prototype on a few
images, and how often attributes fitted on five classes predict the mean point of five others
(core.attribute_transfer). All classes are trained; what is measured are other images of them.

B images, N positions, M prototypes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import cast

import numpy as np
import torch
from torch import Tensor

from dmltune.core.attribute_transfer import HALF, Transfer, attribute_transfer, class_attributes
from dmltune.core.embedder import Embedder
from dmltune.core.poolings.gsp import Gsp, generalized_sum_pool
from dmltune.core.threads import torch_threads
from dmltune.data.feed import evaluation_batches
from dmltune.data.images import ImageSet, Ints
from dmltune.experiment import Experiment
from dmltune.reproduce.drawing import canvas, save
from dmltune.reproduce.figures._points import images_of
from dmltune.reproduce.figures._pooling_data import PROXIES_FROM_RANDOM, gsp
from dmltune.reproduce.figures._sweep import PNCA, cell_name
from dmltune.reproduce.request import FigureRequest
from dmltune.reproduce.study import DataChoice, FigureResult, FigureStudy, FigureTable
from dmltune.train.ray_session import threads_of, usable_cores

PROTOTYPES, SHOWN_CLASSES, SHOWN_IMAGES = 8, 10, 6
METHODS = {"without L_ZS": 0.0, "with L_ZS": 0.1}
_TRAINING = ("objective.protocol=within", "max_steps=4000", "validate_every=200", PROXIES_FROM_RANDOM)
CIFAR10 = DataChoice(
    "glyphs",
    "CIFAR-10, all ten classes trained, ResNet-20, as in the text",
    ("data.name=cifar10", "data.size=32", *_TRAINING),
    stand_in=False,
)
DIGITS = DataChoice(
    "glyphs",
    "ten handwritten digits (scikit-learn), all trained, 32 pixels, ResNet-20",
    (
        *("data.name=digits", "data.size=32", "data.augment=none", "batch.size=40"),
        *(*_TRAINING, "max_steps=400", "validate_every=40"),
    ),
)
GLYPHS = DataChoice(
    "glyphs",
    "300 rendered characters, all trained, 32 pixels, ResNet-20; ten of them in a repetition",
    ("data.classes=150", "data.size=32", *_TRAINING, "max_steps=600", "validate_every=60"),
)


@dataclass(frozen=True)
class Measured:
    """Attributes of classes, their transfer, and the prototype of most weight on a few images."""

    attributes_CM: Tensor
    transfer: Transfer
    dominant_BHW: Tensor
    weight_BHW: Tensor


def run(request: FigureRequest) -> FigureResult:
    experiments = {
        (name, seed): request.experiment(
            *gsp(PNCA, prototypes=PROTOTYPES, zero_shot=weight), "batch.samples_per_class=0", seed=seed
        )
        for name, weight in METHODS.items()
        for seed in range(request.seeds)
    }
    cells = request.train({cell_name(key): each for key, each in experiments.items()})
    images, places_N = images_of(request, experiments["with L_ZS", 0], "validation")
    shown_N = places_N[:: max(1, len(places_N) // SHOWN_IMAGES)][:SHOWN_IMAGES]
    results: dict[tuple[str, int], Measured] = {}
    for key, experiment in experiments.items():
        if cell := cells.get(cell_name(key)):
            embedder = request.embedder(cell)
            with torch_threads(threads_of(usable_cores())):
                results[key] = measure(embedder, experiment, images, places_N, shown_N)
    rows = [(*key, *each.transfer) for key, each in results.items()]
    columns = ("method", "seed", "nearest by distance %", "by cosine %", "chance %")
    picture = draw(
        {name: results[name, 0] for name in METHODS if (name, 0) in results}, images, shown_N, request
    )
    return FigureResult([FigureTable("", columns, rows)], [picture], answers(results))


@torch.inference_mode()
def measure(
    embedder: Embedder, experiment: Experiment, images: ImageSet, places_N: Ints, shown_N: Ints
) -> Measured:
    embedder.eval()
    points, attributes = [], []
    for batch, _ in evaluation_batches(images, places_N, experiment.data.size):
        pooled_BD, attributes_BM = embedder.pooled(batch, attributes=True)
        assert attributes_BM is not None
        points.append(embedder.normalised(pooled_BD))
        attributes.append(attributes_BM)
    labels_N = torch.from_numpy(np.unique(images.labels_N[places_N], return_inverse=True)[1])
    z_NM, half = torch.cat(attributes), min(HALF, len(labels_N.bincount()) // 2)
    transfer = attribute_transfer(z_NM, torch.cat(points), labels_N, half=half)
    batch, _ = next(evaluation_batches(images, shown_N, experiment.data.size, batch_size=len(shown_N)))
    dominant_BHW, weight_BHW = dominant_prototypes(embedder, batch)
    return Measured(class_attributes(z_NM, labels_N), transfer, dominant_BHW, weight_BHW)


def dominant_prototypes(embedder: Embedder, images_B3HW: Tensor) -> tuple[Tensor, Tensor]:
    """Return the prototype nearest to the feature of each position, and the pooling weight, (B, h, w)."""
    pooling, map_BDHW = cast(Gsp, embedder.pooling), embedder.map(images_B3HW)
    local_BND = map_BDHW.flatten(2).mT
    pooled = generalized_sum_pool(local_BND, pooling.prototypes, pooling.mu, pooling.epsilon)
    size = (len(local_BND), *map_BDHW.shape[2:])
    distance_BNM = torch.cdist(local_BND, pooling.prototypes.expand(len(local_BND), -1, -1))
    return distance_BNM.argmin(-1).view(size), pooled.weights_BN.view(size)


def answers(results: Mapping[tuple[str, int], Measured]) -> list[str]:
    lines = []
    for name in METHODS:
        found = [each.transfer for (whose, _), each in results.items() if whose == name]
        if found:
            distance, cosine, chance = (100 * fmean(values) for values in zip(*found, strict=True))
            lines.append(
                f"{name}: the predicted mean is nearest to that of its own class for {distance:.0f} % by "
                f"distance and {cosine:.0f} % by cosine; chance is {chance:.0f} %."
            )
    return [*lines, "The text: prototypes learned with the zero-shot loss predict far better."]


def draw(results: Mapping[str, Measured], images: ImageSet, shown_N: Ints, request: FigureRequest) -> Path:
    from matplotlib import colormaps

    colours = colormaps["tab10"]
    figure, axes = canvas(
        1 + SHOWN_IMAGES, len(results), width=1.5, height=2.0, width_ratios=[2.6, *[1.0] * SHOWN_IMAGES]
    )
    pictures = images.read(shown_N)
    for row, (name, each) in zip(axes, results.items(), strict=True):
        bars, left_C = row[0], np.zeros(min(SHOWN_CLASSES, len(each.attributes_CM)))
        for prototype in range(PROTOTYPES):
            values_C = each.attributes_CM[: len(left_C), prototype].double().numpy()
            bars.barh(range(len(left_C)), values_C, left=left_C, color=colours(prototype), height=0.9)
            left_C += values_C
        bars.set_xlim(0, 1)
        bars.set_ylabel("class", fontsize=8)
        bars.tick_params(labelsize=7)
        bars.set_title(f"{name}: {100 * each.transfer.euclidean:.0f} % transferred", fontsize=9)
        for axis, picture_HWC, dominant_HW, weight_HW in zip(
            row[1:], pictures, each.dominant_BHW, each.weight_BHW, strict=False
        ):
            grey_HW = picture_HWC.mean(-1)
            extent = (0, grey_HW.shape[1], grey_HW.shape[0], 0)
            axis.imshow(grey_HW, cmap="gray", extent=extent)
            alpha_HW = (weight_HW / weight_HW.max()).numpy() * 0.6
            axis.imshow(
                colours(dominant_HW.numpy())[..., :3], alpha=alpha_HW, extent=extent, interpolation="nearest"
            )
        for axis in row[1:]:
            axis.set_xticks([])
            axis.set_yticks([])
    title = f"Fig. 5.6 on {request.label}: attributes of classes, and pooling weights by nearest prototype"
    return save(figure, request.folder / "fig5.6.png", title)


STUDY = FigureStudy(
    about="What eight prototypes stand for, and whether they predict classes that they were not fitted on",
    source="thesis, Fig. 5.6",
    run=run,
    data={"cifar10": CIFAR10, "digits": DIGITS, "glyphs": GLYPHS},
)
