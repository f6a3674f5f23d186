"""Hard batches: images of two categories, in which other classes look alike (seed 004, appendix A).

Legend: N images, B batch, C classes, m samples of a class.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from dmltune.data.images import Ints
from dmltune.data.samplers.plain import images_of_classes
from dmltune.data.samplers.seeding import CATEGORY_ORDER, CATEGORY_SAMPLES, generator
from dmltune.errors import UserError


class TwoCategories:
    """Half a batch from classes of one category, half from those of another.

    Every pair of categories comes once a round, in a new random order; an epoch of the paper is 5 rounds of
    the 66 pairs of SOP, 2 of the 253 of In-Shop. A class lies in the category of its first image. Category
    −1 is "not known": where there are such classes, half of every batch is from them and half from one known
    category (VehicleID), and in a round a category comes as often as its images fill half a batch, at least
    once: Σ_c 2 N_c / B batches.

    The classes of a half are random, each with m different images, or (m = 0) with all of its images until
    the half is full, the last class cut. A category or class that is too small is not refused: no class of a
    category and no image of a class comes again in a batch before all others came as often.
    """

    def __init__(
        self, labels_N: Ints, batch_size: int, samples_per_class: int, seed: int, category_N: Ints | None
    ) -> None:
        if category_N is None:
            raise UserError("batches of 2 categories need a data set with categories; leave categories out.")
        _check_halves(batch_size, samples_per_class)
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
        """The two categories of a batch."""
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
    """`count` of 0 … items − 1: one random order after the other, so that none is ahead by more than one."""
    return np.concatenate([rng.permutation(items) for _ in range(-(-count // items))])[:count]


def _check_halves(batch_size: int, samples_per_class: int) -> None:
    if batch_size < 2 or samples_per_class < 0:
        raise UserError(
            "with 2 categories batch_size must be at least 2 and samples_per_class at least 0;"
            f" got {batch_size} and {samples_per_class}."
        )
    step = 2 * max(1, samples_per_class)
    if excess := batch_size % step:
        below, above = batch_size - excess, batch_size - excess + step
        rule = "even" if step == 2 else f"a multiple of 2 × samples_per_class = {step}"
        raise UserError(
            f"with 2 categories batch_size must be {rule}; got {batch_size}."
            f" Use {f'{below} or {above}' if below else above}."
        )
