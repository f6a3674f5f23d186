"""Batches without regard to categories: m samples of each of k classes, or random images.

Legend: N images, B batch, C classes, k classes in a batch, m samples of a class: B = k·m.
"""

from __future__ import annotations

import numpy as np

from dmltune.data.images import Ints
from dmltune.data.samplers.seeding import CLASS_ORDER, CLASS_SAMPLES, IMAGE_ORDER, generator
from dmltune.errors import UserError


class MPerClass:
    """k different classes with m samples each; every epoch shows every class once.

    The classes are permuted anew in each epoch and taken k at a time. A batch may reach into the next epoch;
    the classes it already has then come later there (with fewer than 2k classes there is no room for that:
    each batch draws its k classes afresh, equally often on average). The m images are distinct; a class that
    has fewer is sampled with repetition.
    """

    def __init__(self, labels_N: Ints, batch_size: int, samples_per_class: int, seed: int) -> None:
        _check_sizes(batch_size, samples_per_class)
        self.classes_C = np.unique(labels_N)
        self.per_batch = batch_size // samples_per_class
        self.samples_per_class = samples_per_class
        self.seed = seed
        if self.per_batch > len(self.classes_C):
            raise UserError(
                f"a batch of {batch_size} = {self.per_batch} classes × {samples_per_class} needs"
                f" {self.per_batch} training classes; got {len(self.classes_C)}."
                f" Use a batch of {len(self.classes_C) * samples_per_class} or less."
            )
        self._images = images_of_classes(labels_N)

    def batch(self, step: int) -> Ints:
        rng = generator(self.seed, CLASS_SAMPLES, step)
        return np.concatenate([self._samples(rng, position) for position in self.classes_of(step)])

    def classes_of(self, step: int) -> Ints:
        """The k classes of a batch, as positions in `classes_C`."""
        total, k = len(self.classes_C), self.per_batch
        if total < 2 * k:
            return generator(self.seed, CLASS_ORDER, step).permutation(total)[:k]
        epoch, start = divmod(step * k, total)
        first = self._order(epoch)[start : start + k]
        return first if len(first) == k else np.concatenate([first, self._order(epoch + 1)[: k - len(first)]])

    def _order(self, epoch: int) -> Ints:
        """Classes of the batch that began in the epoch before come after the other ones (but never among the
        last k: so the end of an epoch is that of its plain permutation and does not depend on the epochs
        before)."""
        total, k = len(self.classes_C), self.per_batch
        order_C = generator(self.seed, CLASS_ORDER, epoch).permutation(total)
        begun = -(epoch * total) % k  # how many positions the first, shared batch takes from this epoch
        if epoch == 0 or begun == 0:
            return order_C
        before = generator(self.seed, CLASS_ORDER, epoch - 1).permutation(total)[total - (k - begun) :]
        head, tail = order_C[: total - k], order_C[total - k :]
        again = np.isin(head, before)
        return np.concatenate([head[~again], head[again], tail])

    def _samples(self, rng: np.random.Generator, position: int) -> Ints:
        images, m = self._images[position], self.samples_per_class
        return rng.choice(images, m, replace=len(images) < m)


class RandomImages:
    """Images in a new random order in every epoch, without regard to classes; what does not fill a batch is
    left out."""

    def __init__(self, labels_N: Ints, batch_size: int, seed: int) -> None:
        if not 0 < batch_size <= len(labels_N):
            raise UserError(
                f"batch_size must be between 1 and the {len(labels_N)} training images; got {batch_size}."
            )
        self.images, self.batch_size, self.seed = len(labels_N), batch_size, seed

    def batch(self, step: int) -> Ints:
        epoch, position = divmod(step, self.images // self.batch_size)
        order = generator(self.seed, IMAGE_ORDER, epoch).permutation(self.images)
        return order[position * self.batch_size : (position + 1) * self.batch_size]


def images_of_classes(labels_N: Ints) -> list[Ints]:
    """The images of every class, ascending, in the order of the labels."""
    sizes_C = np.unique(labels_N, return_counts=True)[1]
    return np.split(np.argsort(labels_N, kind="stable"), np.cumsum(sizes_C)[:-1])


def _check_sizes(batch_size: int, samples_per_class: int) -> None:
    if batch_size < 1 or samples_per_class < 1:
        raise UserError(
            f"batch_size and samples_per_class must be at least 1; got {batch_size} and {samples_per_class}."
        )
    if excess := batch_size % samples_per_class:
        below, above = batch_size - excess, batch_size - excess + samples_per_class
        raise UserError(
            f"batch_size must be a multiple of samples_per_class; got {batch_size} and {samples_per_class}."
            f" Use {f'{below} or {above}' if below else above}."
        )
