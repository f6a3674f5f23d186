"""Samplers choose the images of a batch as a pure function of (seed, step).

Legend: N images, B batch, C classes, k classes in a batch, m samples of a class: B = k·m.
"""

from __future__ import annotations

from itertools import combinations
from typing import Literal

import numpy as np

from dmltune.data.images import Ints
from dmltune.errors import UserError

# The purposes of random numbers.
CLASS_ORDER, CLASS_SAMPLES, IMAGE_ORDER, AUGMENTATION, POOL, POOL_AUGMENTATION = range(1, 7)
CATEGORY_ORDER, CATEGORY_SAMPLES, WHOLE_CLASSES = range(7, 10)
VIEWS, MONITORED = 64, 65
SamplesPerClass = int | Literal["all"]


def generator(seed: int, purpose: int, count: int) -> np.random.Generator:
    """Return independent random numbers for every (seed, purpose, count)."""
    return np.random.default_rng((seed, purpose, count))


def sampler(
    labels_N: Ints,
    batch_size: int,
    samples_per_class: SamplesPerClass,
    seed: int,
    category_N: Ints | None = None,
    categories: int | None = None,
) -> MPerClass | RandomImages | TwoCategories | WholeClasses:
    """Return a sampler, whose `batch(step)` returns indices into `labels_N`, (B,).

    With `samples_per_class` = 0 images are random, with "all" a class comes with all its images. With 2
    `categories` both mean "all".
    """
    if categories is not None:
        if categories != 2:
            raise UserError(f"categories must be 2 (hard batches) or left out; got {categories}.")
        per_class = 0 if samples_per_class == "all" else samples_per_class
        return TwoCategories(labels_N, batch_size, per_class, seed, category_N)
    if samples_per_class == "all":
        return WholeClasses(labels_N, batch_size, seed)
    if samples_per_class == 0:
        return RandomImages(labels_N, batch_size, seed)
    return MPerClass(labels_N, batch_size, samples_per_class, seed)


class MPerClass:
    """k different classes with m samples each; every epoch shows every class once.

    Each epoch permutes the classes and takes k at a time. A batch may reach into the next epoch; the classes
    that it already has then come later there. With fewer than 2k classes this is impossible, and each batch
    draws its k classes independently. The m images are distinct; a class with fewer is sampled with
    repetition.
    """

    def __init__(self, labels_N: Ints, batch_size: int, samples_per_class: int, seed: int) -> None:
        sizes = f"got {batch_size} and {samples_per_class}."
        if batch_size < 1 or samples_per_class < 1:
            raise UserError(f"batch_size and samples_per_class must be at least 1; {sizes}")
        rule = f"batch_size must be a multiple of samples_per_class; {sizes}"
        _require_multiple(batch_size, samples_per_class, rule)
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
        rng, m = generator(self.seed, CLASS_SAMPLES, step), self.samples_per_class
        classes = [self._images[position] for position in self.classes_of(step)]
        return np.concatenate([rng.choice(images, m, replace=len(images) < m) for images in classes])

    def classes_of(self, step: int) -> Ints:
        """Return the k classes of a batch, as positions in `classes_C`."""
        total, k = len(self.classes_C), self.per_batch
        if total < 2 * k:
            return generator(self.seed, CLASS_ORDER, step).permutation(total)[:k]
        epoch, start = divmod(step * k, total)
        first = self._order(epoch)[start : start + k]
        return first if len(first) == k else np.concatenate([first, self._order(epoch + 1)[: k - len(first)]])

    def _order(self, epoch: int) -> Ints:
        """Permute the classes; those that the first, shared batch has come after the others.

        They are never moved to the last k places: these do not depend on the epochs before.
        """
        total, k = len(self.classes_C), self.per_batch
        order_C = generator(self.seed, CLASS_ORDER, epoch).permutation(total)
        begun = -(epoch * total) % k  # positions of this epoch in the first, shared batch
        if epoch == 0 or begun == 0:
            return order_C
        before = generator(self.seed, CLASS_ORDER, epoch - 1).permutation(total)[total - (k - begun) :]
        head, tail = order_C[: total - k], order_C[total - k :]
        repeated = np.isin(head, before)
        return np.concatenate([head[~repeated], head[repeated], tail])


class RandomImages:
    """All images in a new random order in every epoch; the incomplete batch is dropped."""

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


class WholeClasses:
    """Random classes with all their images until the batch is full (random batches of seed 004, appendix A).

    The classes of a batch are distinct and drawn anew for every batch; the last one is cut. Not in the paper,
    whose classes are small: a class fills half a batch at most, so that every batch has two classes.
    """

    def __init__(self, labels_N: Ints, batch_size: int, seed: int) -> None:
        self._images = images_of_classes(labels_N)
        self.batch_size, self.half, self.seed = batch_size, batch_size // 2, seed
        available = sum(min(len(images), self.half) for images in self._images)
        if not 2 <= batch_size <= available:
            raise UserError(
                "with samples_per_class all, batch_size must be at least 2 and at most the images of all"
                f" training classes, half a batch of each; got {batch_size}, and {available} images."
            )

    def batch(self, step: int) -> Ints:
        rng, parts, room = generator(self.seed, WHOLE_CLASSES, step), [], self.batch_size
        for position in rng.permutation(len(self._images)):
            parts.append(rng.permutation(self._images[position])[: min(room, self.half)])
            room -= len(parts[-1])
            if not room:
                break
        return np.concatenate(parts)


def images_of_classes(labels_N: Ints) -> list[Ints]:
    """Return the images of every class, ascending, in the order of the labels."""
    sizes_C = np.unique(labels_N, return_counts=True)[1]
    return np.split(np.argsort(labels_N, kind="stable"), np.cumsum(sizes_C)[:-1])


def _require_multiple(batch_size: int, step: int, rule: str) -> None:
    if excess := batch_size % step:
        below, above = batch_size - excess, batch_size - excess + step
        raise UserError(f"{rule} Use {f'{below} or {above}' if below else above}.")


class TwoCategories:
    """Hard batches (seed 004, appendix A) of two categories, a half each.

    Every pair of categories occurs once a round, in a new random order; an epoch of the paper is 5 rounds of
    the 66 pairs of SOP, or 2 of the 253 of In-Shop. A class is in the category of its first image. Category
    −1 is "not known": where such classes exist (VehicleID), half of every batch is from them and half from
    one known category. A category then occurs as often in a round as its images fill half a batch, at least
    once: Σ_c 2 N_c / B batches. The batches are hard because classes of one category look alike.

    The classes of a half are random, each with m distinct images, or (m = 0) with all of its images until the
    half is full; the last class is cut. In a category or class that is too small, no class or image is
    repeated in a batch before all others were used as often.
    """

    def __init__(
        self, labels_N: Ints, batch_size: int, samples_per_class: int, seed: int, category_N: Ints | None
    ) -> None:
        if category_N is None:
            raise UserError("batches of 2 categories need a data set with categories; leave categories out.")
        if batch_size < 2 or samples_per_class < 0:
            raise UserError(
                "with 2 categories batch_size must be at least 2 and samples_per_class at least 0;"
                f" got {batch_size} and {samples_per_class}."
            )
        step = 2 * max(1, samples_per_class)
        rule = "even" if step == 2 else f"a multiple of 2 × samples_per_class = {step}"
        _require_multiple(batch_size, step, f"with 2 categories batch_size must be {rule}; got {batch_size}.")
        self.half, self.samples_per_class, self.seed = batch_size // 2, samples_per_class, seed
        images = images_of_classes(labels_N)
        category_C = category_N[[members[0] for members in images]]
        self._classes = {
            int(category): [images[position] for position in np.flatnonzero(category_C == category)]
            for category in np.unique(category_C)
        }
        self.round = self._round([category for category in self._classes if category >= 0])

    def batch(self, step: int) -> Ints:
        rng = generator(self.seed, CATEGORY_SAMPLES, step)
        return np.concatenate(
            [self._samples(rng, self._classes[category]) for category in self.categories_of(step)]
        )

    def categories_of(self, step: int) -> tuple[int, int]:
        """Return the two categories of a batch."""
        count, position = divmod(step, len(self.round))
        order = generator(self.seed, CATEGORY_ORDER, count).permutation(len(self.round))
        return self.round[int(order[position])]

    def _round(self, known: list[int]) -> list[tuple[int, int]]:
        if len(self._classes) < 2:
            raise UserError(
                f"batches of 2 categories need training classes of 2 categories; got {len(self._classes)}."
                " Leave categories out."
            )
        if -1 not in self._classes:
            return list(combinations(known, 2))
        fills = {c: round(sum(map(len, self._classes[c])) / self.half) for c in known}
        return [(c, -1) for c in known for _ in range(max(1, fills[c]))]

    def _samples(self, rng: np.random.Generator, classes: list[Ints]) -> Ints:
        if m := self.samples_per_class:
            chosen, times = np.unique(_in_turns(rng, len(classes), self.half // m), return_counts=True)
            parts = [
                classes[c][_in_turns(rng, len(classes[c]), n * m)] for c, n in zip(chosen, times, strict=True)
            ]
            return np.concatenate(parts)
        parts, room = [], self.half
        while room > 0:
            for position in rng.permutation(len(classes)):
                parts.append(rng.permutation(classes[position])[:room])
                room -= len(parts[-1])
                if not room:
                    break
        return np.concatenate(parts)


def _in_turns(rng: np.random.Generator, items: int, count: int) -> Ints:
    """Return `count` of 0 … items − 1 in random orders, one after the other."""
    return np.concatenate([rng.permutation(items) for _ in range(-(-count // items))])[:count]
