"""Compare frozen backbones on some images, before anything is trained: seconds for each.

N images, D channels. Which backbone is best differs between data sets, so it is measured. Its features are
the average of its map, as evaluation sees the images.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch.nn import functional as F

from dmltune.core import backbones
from dmltune.core.retrieval import retrieval_metrics
from dmltune.data.feed import evaluation_batches
from dmltune.data.images import ImageSet, Ints
from dmltune.errors import UserError
from dmltune.weights.folder import find

CANDIDATES = (
    ("efficientnet_lite0", "packaged"),
    ("torchvision/mobilenet_v2", "imagenet_v1"),
    ("torchvision/resnet18", "imagenet_v1"),
    ("torchvision/googlenet", "imagenet_v1"),
    ("bn_inception", "imagenet"),
    ("torchvision/resnet50", "imagenet_v2"),
)
MOST_CLASSES, MOST_OF_A_CLASS = 40, 12  # images of the comparison: 480 at most
MOST_SHOWN = 3


class WeightsHere(NamedTuple):
    """A backbone whose weights are on this machine."""

    name: str
    weights: str
    file: Path


class FrozenBackbone(NamedTuple):
    """MAP@R of a frozen backbone on so many images, and its seconds for one of them."""

    name: str
    weights: str
    map_at_r: float
    seconds: float
    images: int


def weights_here(data_root: str | None = None) -> list[WeightsHere]:
    """Return the candidates that can be compared without the network."""
    found = []
    for name, weights in CANDIDATES:
        try:
            source = backbones.weights_source(name, weights)
            copy = find(source, data_root) if source else None
        except UserError:  # its package is not installed, or the file is damaged
            continue
        if copy is not None:
            found.append(WeightsHere(name, weights, copy.path))
    return found


def compared_text(compared: Sequence[FrozenBackbone]) -> str:
    """Return `best of 2 frozen ones, MAP@R of 480 images: efficientnet_lite0 72.1 %, …`."""
    scores = ", ".join(f"{each.name} {100 * each.map_at_r:.1f} %" for each in compared[:MOST_SHOWN])
    return f"best of {len(compared)} frozen ones here, MAP@R of {compared[0].images} images: {scores}"


def cost(compared: Sequence[FrozenBackbone], size: int) -> float:
    """Return the cost of an image with the best one, relative to EfficientNet-Lite0 at 128 px."""
    usual = next((each.seconds for each in compared if each.name == CANDIDATES[0][0]), compared[0].seconds)
    return (size / 128) ** 2 * compared[0].seconds / usual


def compare(images: ImageSet, size: int, candidates: Sequence[WeightsHere]) -> list[FrozenBackbone]:
    """Return the frozen backbones, the best first; those that take no images of this size are left out."""
    chosen_N = sample(images.labels_N)
    labels_N = torch.from_numpy(np.asarray(images.labels_N[chosen_N], dtype=np.int64))
    batches = [pixels for pixels, _ in evaluation_batches(images, chosen_N, size)]
    measured = []
    for name, weights, file in candidates:
        backbone = backbones.load(name, weights, file).eval()
        begin = time.perf_counter()
        try:
            emb_ND = torch.cat(list(embedded(backbone, batches)))
        except (AssertionError, RuntimeError, ValueError):
            continue
        score = retrieval_metrics(emb_ND, labels_N)["map_at_r"]
        seconds = (time.perf_counter() - begin) / len(chosen_N)
        measured.append(FrozenBackbone(name, weights, score, seconds, len(chosen_N)))
    return sorted(measured, key=lambda each: -each.map_at_r)


@torch.no_grad()
def embedded(backbone: backbones.Backbone, batches: Sequence[torch.Tensor]) -> Iterator[torch.Tensor]:
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (backbone.mean, backbone.std))
    for pixels_BCHW in batches:
        yield F.normalize(backbone((pixels_BCHW.float() / 255 - mean) / std).mean((2, 3)))


def sample(labels_N: Ints) -> Ints:
    """Return the images of the comparison: of classes across the set, the first few of each."""
    classes = [label for label, count in enumerate(np.bincount(labels_N)) if count > 1]
    places = np.unique(np.linspace(0, len(classes) - 1, min(MOST_CLASSES, len(classes))).astype(np.int64))
    parts = [np.flatnonzero(labels_N == classes[place])[:MOST_OF_A_CLASS] for place in places]
    return np.concatenate(parts)
