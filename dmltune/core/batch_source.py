"""What `fit` needs of a data set: batches, the validation set, and pools."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from torch import Tensor


class BatchSource(Protocol):
    """Source of images: uint8 (B, 3, H, W), or float in [0, 1]; labels are 0 … num_classes − 1."""

    @property
    def num_classes(self) -> int: ...

    @property
    def queries_N(self) -> Tensor | None:
        """Which validation images are queries, the others being the gallery; None: each image is both."""

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        """Return this rank's slice of a step's batch, equally long on all ranks: (images_B3HW, labels_B)."""

    @property
    def monitored_N(self) -> Tensor:
        """The places, in the validation set, of the images that are measured between validations."""

    def validation(self, places_N: Tensor | None = None) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield this rank's share in order: rank r has the items r::world (of those at `places_N`)."""

    def pool(self, per_class: int, round: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield this rank's share of `per_class` fresh samples a class: (images, labels_B, slot_B)."""
