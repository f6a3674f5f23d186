"""Which images make up the batch of a step: pure functions of (seed, step), so that resuming needs no
state.
"""

from __future__ import annotations

from typing import Protocol

from dmltune.data.images import Ints
from dmltune.data.samplers.plain import MPerClass, RandomImages
from dmltune.data.samplers.two_categories import TwoCategories
from dmltune.errors import UserError

__all__ = ["MPerClass", "RandomImages", "Sampler", "TwoCategories", "sampler"]


class Sampler(Protocol):
    def batch(self, step: int) -> Ints:
        """Indices into `labels_N`, (B,)."""
        ...


def sampler(
    labels_N: Ints,
    batch_size: int,
    samples_per_class: int,
    seed: int,
    category_N: Ints | None = None,
    categories: int | None = None,
) -> Sampler:
    """`samples_per_class` = 0: random images, or with 2 `categories` a batch all images of a class."""
    if categories is not None:
        if categories != 2:
            raise UserError(f"categories must be 2 (hard batches) or left out; got {categories}.")
        return TwoCategories(labels_N, batch_size, samples_per_class, seed, category_N)
    if samples_per_class == 0:
        return RandomImages(labels_N, batch_size, seed)
    return MPerClass(labels_N, batch_size, samples_per_class, seed)
