"""Chapter 4: local features of a network in the plane, prototypes that cover them, and what these say.

B images, N local features of an image, M prototypes, C classes, D dimensions (2 but for real maps).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dmltune.core.convex import convex_combination, histogram
from dmltune.core.embedder import Embedder
from dmltune.core.geometry import greedy_k_center, pairwise_distance
from dmltune.core.poolings.gsp import Gsp
from dmltune.data.feed import evaluation_batches
from dmltune.data.images import ImageSet
from dmltune.reproduce.request import FigureRequest
from dmltune.reproduce.study import DataChoice
from dmltune.train.build import training_images

SHARED = "chapter4"  # the name of the trainings: the figures look at one network
IMAGES_EACH, PROTOTYPES = 64, 48
ACTIVE = 0.01  # a prototype is active for a class with this share of the class's local features
_NETWORK = (
    *("objective.protocol=within", "embedding.dim=2", "data.size=32", "data.augment=none"),
    *("batch.size=40", "batch.samples_per_class=4", "max_steps=300", "validate_every=100"),
)
DATA = {
    "cifar10": DataChoice(
        "glyphs",
        "CIFAR-10 with ResNet-20 and two dimensions, as in the text",
        ("data.name=cifar10", *_NETWORK, "max_steps=4000", "validate_every=500"),
        stand_in=False,
    ),
    "digits": DataChoice(
        "glyphs",
        "ten handwritten digits (scikit-learn) with ResNet-20 and two dimensions",
        ("data.name=digits", *_NETWORK),
    ),
}


@dataclass(frozen=True)
class LocalFeatures:
    """Features scaled into the unit ball, their images' classes, and prototypes picked among them.

    `weights_BN` are those of the pooling: 1/N of average pooling, or those of generalized sum pooling.
    """

    features_BND: Tensor
    labels_B: Tensor
    names: tuple[str, ...]
    prototypes_MD: Tensor
    weights_BN: Tensor

    @property
    def radius(self) -> float:
        """δ: the largest distance of a feature to its nearest prototype."""
        distances = [pairwise_distance(part, self.prototypes_MD).amin(1).max() for part in self._blocks()]
        return float(torch.stack(distances).max())

    @property
    def pooled_BD(self) -> Tensor:
        """Return the points of the images before normalisation."""
        pooled_BD: Tensor = (self.weights_BN.unsqueeze(1) @ self.features_BND).squeeze(1)
        return pooled_BD

    def nearest_BN(self) -> Tensor:
        """Return the prototype of each local feature."""
        nearest = [pairwise_distance(part, self.prototypes_MD).argmin(1) for part in self._blocks()]
        return torch.cat(nearest).view(self.features_BND.shape[:2])

    def mass_CM(self) -> Tensor:
        """Return the share of each prototype in the pooled points of a class; at 1/N the mean of p*."""
        mass_BM = torch.zeros(len(self.labels_B), len(self.prototypes_MD))
        mass_BM.scatter_add_(1, self.nearest_BN(), self.weights_BN.to(mass_BM))
        return torch.stack([mass_BM[self.labels_B == label].mean(0) for label in range(len(self.names))])

    def _blocks(self) -> tuple[Tensor, ...]:
        return torch.split(self.features_BND.flatten(0, 1), 8192)

    def errors_B(self) -> Tensor:
        """Return ‖PCC − GAP‖ of each image (proposition 4.2.1: at most δ)."""
        combined_BD = convex_combination(self.features_BND, self.prototypes_MD)
        errors_B: Tensor = torch.linalg.vector_norm(combined_BD - self.features_BND.mean(1), dim=1)
        return errors_B

    def histograms_BM(self) -> Tensor:
        return histogram(self.features_BND, self.prototypes_MD)

    def covered_by(self, prototypes: int) -> LocalFeatures:
        """Return the same features with another number of prototypes."""
        return _with_prototypes(self.features_BND, self.labels_B, self.names, self.weights_BN, prototypes)


def trained_features(request: FigureRequest, pooling: str = "gap") -> LocalFeatures:
    """Train the network with this pooling, unless it is trained, and return its local features."""
    changes = [f"pooling={pooling}"]
    if pooling == "gsp":
        changes = ["pooling={name: gsp, prototypes: 16, mu: 0.3, epsilon: 5.0}"]
    experiment = request.experiment(*changes)
    cell = request.train({pooling: experiment})[pooling]
    images = training_images(experiment, request.locations.absolute_root)
    each = 4 if request.tiny else IMAGES_EACH
    return local_features(request.embedder(cell), images, experiment.data.size, each)


@torch.inference_mode()
def local_features(
    embedder: Embedder, images: ImageSet, size: int, each: int, prototypes: int = PROTOTYPES
) -> LocalFeatures:
    """Return the local features of `each` images of every class, scaled so that the longest is 1."""
    generator = np.random.default_rng(0)
    shuffled = generator.permutation(len(images))
    chosen = [shuffled[images.labels_N[shuffled] == label][:each] for label in range(images.num_classes)]
    indices_B = np.concatenate(chosen)
    embedder.eval()
    maps, weights = [], []
    for batch, _ in evaluation_batches(images, indices_B, size):
        map_BDHW = embedder.map(batch)
        maps.append(map_BDHW.flatten(2).mT)
        weights.append(_weights(embedder, map_BDHW))
    features_BND = torch.cat(maps)
    features_BND = features_BND / torch.linalg.vector_norm(features_BND, dim=-1).max()
    labels_B = torch.from_numpy(images.labels_N[indices_B])
    return _with_prototypes(features_BND, labels_B, images.class_names, torch.cat(weights), prototypes)


def _weights(embedder: Embedder, map_BDHW: Tensor) -> Tensor:
    if isinstance(embedder.pooling, Gsp):
        return embedder.pooling.weights(map_BDHW).flatten(1)
    count = map_BDHW.shape[2] * map_BDHW.shape[3]
    return map_BDHW.new_full((len(map_BDHW), count), 1 / count)


def _with_prototypes(
    features_BND: Tensor, labels_B: Tensor, names: tuple[str, ...], weights_BN: Tensor, prototypes: int
) -> LocalFeatures:
    flat_XD = features_BND.flatten(0, 1)
    picks_M = greedy_k_center(flat_XD, None, min(prototypes, len(flat_XD)))
    return LocalFeatures(features_BND, labels_B, names, flat_XD[picks_M], weights_BN)
