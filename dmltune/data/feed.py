"""What `fit` drinks from: training batches by step, the validation images, and pools of fresh samples of every class.

Legend: B images of this rank, H=W=size pixels. Images are uint8 (B, 3, size, size) with channels-last strides.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from dmltune.data.images import ImageSet, Indices
from dmltune.data.splits import Split

Batch = tuple[Tensor, Tensor]  # images (B, 3, size, size) uint8, labels (B,) int64
PoolBatch = tuple[Tensor, Tensor, Tensor]  # images, labels (B,), slots (B,) in 0 … per_class − 1


class Feed:
    """Everything is a pure function of (seed, step) or (seed, round), so that resuming needs no state."""

    def __init__(
        self,
        train: ImageSet,
        split: Split,
        *,
        size: int,
        batch_size: int,
        samples_per_class: int,
        augment: str,
        seed: int,
        rank: int = 0,
        world: int = 1,
        prefetch: int = 1,
    ) -> None:
        raise NotImplementedError

    num_classes: int  # number of training classes

    def batch(self, step: int) -> Batch:
        """This rank's contiguous share of the global batch of `step`. Labels are 0 … num_classes − 1."""
        raise NotImplementedError

    def validation(self) -> Iterator[Batch]:
        """This rank's validation images in order: items rank, rank + world, …; labels 0 … validation classes − 1."""
        raise NotImplementedError

    def pool(self, per_class: int, round: int) -> Iterator[PoolBatch]:
        """This rank's share of up to `per_class` distinct, freshly augmented training samples of every class."""
        raise NotImplementedError

    def close(self) -> None:
        """End the background thread."""


def evaluation_batches(
    imageset: ImageSet, indices: Indices, size: int, batch_size: int = 64
) -> Iterator[Batch]:
    """Images as evaluation sees them (no randomness), with the labels of the set."""
    raise NotImplementedError
