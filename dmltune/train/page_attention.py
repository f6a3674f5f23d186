"""Where generalized sum pooling looks: its weights over images, and the prototypes that classes consist of.

The result is plain JSON and is stored with the gallery (page_gallery.py). B images, h×w positions, C classes,
M prototypes, S pixels of a side.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from dmltune.core.embedder import Embedder
from dmltune.core.poolings.gsp import Gsp
from dmltune.data.contact_sheet import spread
from dmltune.data.feed import evaluation_batches
from dmltune.data.images import ImageSet, Indices, Ints
from dmltune.errors import printable
from dmltune.train.page_gallery import LARGE, uri

SHOWN = 8  # images with their weights
CLASSES, IMAGES = 12, 12  # of the histograms
MOST = 64  # prototypes, those of the largest share
LITTLE, MUCH = (8, 29, 66), (255, 214, 74)  # colours of the weights
COVER = 0.6  # how much the colour hides of the image


def attention(embedder: Embedder, images: ImageSet, indices: Indices, size: int) -> dict[str, Any] | None:
    """Return weights and histograms of images at `indices`; None for another pooling."""
    pooling = embedder.pooling
    if not isinstance(pooling, Gsp) or not len(indices):
        return None
    chosen = np.asarray(indices, dtype=np.int64)
    labels = np.unique(images.labels_N[chosen])
    members = [chosen[images.labels_N[chosen] == label] for label in labels]
    shown = np.array([members[place][0] for place in spread(len(members), SHOWN)])
    several = [own[spread(len(own), IMAGES)] for own in (members[p] for p in spread(len(members), CLASSES))]
    names = [printable(name) for name in images.class_names]
    return {
        "mu": pooling.mu,
        "epsilon": pooling.epsilon,
        "images": _weighted(embedder, images, shown, size, names),
        **_histograms(embedder, images, several, size, names),
    }


def _weighted(
    embedder: Embedder, images: ImageSet, places: Ints, size: int, names: list[str]
) -> list[dict[str, Any]]:
    rows = []
    pooling = embedder.pooling
    assert isinstance(pooling, Gsp)
    with torch.inference_mode():
        for pixels_B3SS, labels_B in evaluation_batches(images, places, size):
            weights_Bhw = pooling.weights(embedder.map(pixels_B3SS)).float().cpu()
            for pixels, weights, label in zip(pixels_B3SS, weights_Bhw, labels_B, strict=True):
                picture = Image.fromarray(as_bytes(pixels).permute(1, 2, 0).numpy())
                rows.append(
                    {
                        "class": names[int(label)],
                        "image": uri(_large(picture), LARGE),
                        "weights": uri(covered(_large(picture), weights), LARGE),
                        "half": round(half_of(weights), 3),
                    }
                )
    return rows


def as_bytes(pixels: Tensor) -> Tensor:
    return (pixels * 255).round().to(torch.uint8) if pixels.is_floating_point() else pixels


def _large(picture: Image.Image) -> Image.Image:
    """Return the picture with a side of LARGE, small ones in whole pixels."""
    way = Image.Resampling.NEAREST if picture.width < LARGE else Image.Resampling.BICUBIC
    return picture.resize((LARGE, LARGE), way)


def covered(picture: Image.Image, weights_hw: Tensor) -> Image.Image:
    """Return the picture in grey under the colours of its weights; the largest weight has the full colour."""
    shares = (weights_hw / weights_hw.max().clamp(min=1e-12)).numpy().astype(np.float32)
    fitted = Image.fromarray(shares).resize(picture.size, Image.Resampling.BILINEAR)
    share = np.clip(np.asarray(fitted, dtype=np.float32), 0, 1)[:, :, None]
    colour = np.array(LITTLE, np.float32) * (1 - share) + np.array(MUCH, np.float32) * share
    grey = np.asarray(picture.convert("L").convert("RGB"), dtype=np.float32)
    mixed: NDArray[np.float32] = COVER * colour + (1 - COVER) * grey
    return Image.fromarray(np.rint(mixed).astype(np.uint8))


def half_of(weights_hw: Tensor) -> float:
    """Return the smallest share of the positions that holds half of the weight."""
    falling = weights_hw.flatten().sort(descending=True).values.cumsum(0)
    needed = int((falling < 0.5 * falling[-1]).sum()) + 1
    return needed / weights_hw.numel()


def _histograms(
    embedder: Embedder, images: ImageSet, members: list[Ints], size: int, names: list[str]
) -> dict[str, Any]:
    """Return the mean pseudo-attributes z of classes, for the prototypes with the largest share in any."""
    rows = []
    with torch.inference_mode():
        for own in members:
            parts = [
                embedder.pooling.with_attributes(embedder.map(pixels))[1].float().cpu()
                for pixels, _ in evaluation_batches(images, own, size)
            ]
            rows.append(torch.cat(parts).mean(0))
    shares_CM = torch.stack(rows)
    order = shares_CM.amax(0).argsort(descending=True)[:MOST]
    peak = shares_CM[:, order].argmax(0)  # prototypes of one class stand together
    order = order[torch.argsort(peak, stable=True)]
    return {
        "classes": [names[int(images.labels_N[own[0]])] for own in members],
        "prototypes": [int(number) for number in order],
        "shares": [[round(float(share), 4) for share in row] for row in shares_CM[:, order]],
        "of": shares_CM.shape[1],
        "rest": round(float(1 - shares_CM[:, order].sum(1).mean()), 4),
    }
