"""Collages of an image of a class and three of shared classes (§5.3.2 of the thesis).

A collage's label is that of its one image. The three others carry no information about it, because all
classes draw them from the same few super-classes. Foreground and shared classes are disjoint between
training, validation and test. Which classes validate depends on the fold, so every partition of protocol
`ablation` has its own shared classes: those of the validation partition never occur in training. (Sets for
all protocols at once would have to be 60, the least common multiple of 3, 4 and 5 partitions: so many that
the background would identify the classes. With the two partitions that train together it carries one bit.)

Legend: N collages, C foreground classes, P partitions, S = side of a tile, T tiles, M shared classes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dmltune.data.images import ImageSet, Ints, Part, Pixels, short_hash
from dmltune.data.splits import PARTITIONS, split

PROTOCOL = "ablation"
SEED = 0  # another one is another data set
TILES = 4


@dataclass(frozen=True, eq=False)
class CollageSet(ImageSet):
    """A set of collages with the shared classes in each image.

    The set of the first classes is dealt anew: its collages differ.
    """

    protocol: ClassVar[str] = PROTOCOL  # another one would validate on backgrounds that were trained on
    recipe: Recipe | None = None
    shared_N3: Ints | None = None  # the classes of the three other tiles, by their label among the tiles

    def first_classes(self, count: int | None) -> ImageSet:
        if count is None or count >= self.num_classes or self.recipe is None:
            return self
        return replace(self.recipe, foreground=self.recipe.foreground[:count]).collages()


@dataclass(frozen=True, eq=False)
class Recipe:
    """How collages are made of `tiles`.

    `foreground` and `shared` are labels of `tiles`; `shared[p]` are the shared classes of partition p. The
    test half is not split: there `shared` has one entry. Every picture of a foreground class is in `repeats`
    collages.
    """

    name: str
    part: Part
    tiles: ImageSet
    foreground: tuple[int, ...]
    shared: tuple[tuple[int, ...], ...]
    repeats: int = 1

    def collages(self) -> CollageSet:
        images_C = [np.flatnonzero(self.tiles.labels_N == label) for label in self.foreground]
        front_N = np.concatenate([np.tile(images, self.repeats) for images in images_C])
        labels_N = np.repeat(np.arange(len(images_C)), [self.repeats * len(images) for images in images_C])
        pools = [np.flatnonzero(np.isin(self.tiles.labels_N, classes)) for classes in self.shared]
        partition_C = partitions(len(images_C), len(pools))
        place_N = np.empty(len(front_N), np.int64)
        behind_N3 = np.empty((len(front_N), TILES - 1), np.int64)
        for label, partition in enumerate(partition_C):
            mine, pool = labels_N == label, pools[partition]
            rng = np.random.default_rng((SEED, self.foreground[label]))
            place_N[mine] = rng.integers(TILES, size=mine.sum())
            behind_N3[mine] = pool[rng.integers(len(pool), size=(mine.sum(), TILES - 1))]
        # tiles from left to right and top to bottom; the foreground is the first, rotated to its place
        turned_N4 = (np.arange(TILES) - place_N[:, None]) % TILES
        tile_N4 = np.take_along_axis(np.column_stack([front_N, behind_N3]), turned_N4, axis=1)

        def read(indices: Ints, side: int | None) -> list[Pixels]:
            tiles = self.tiles.read(tile_N4[indices].ravel())
            rows = [np.concatenate(tiles[first : first + 2], axis=1) for first in range(0, len(tiles), 2)]
            return [np.concatenate(rows[first : first + 2]) for first in range(0, len(rows), 2)]

        content = repr((self.tiles.fingerprint, SEED)).encode() + tile_N4.tobytes() + labels_N.tobytes()
        names = tuple(self.tiles.class_names[label] for label in self.foreground)
        collages = CollageSet(self.name, self.part, labels_N, names, short_hash(content), read, margin=1.0)
        return replace(collages, recipe=self, shared_N3=self.tiles.labels_N[behind_N3])

    def distilled(self, name: str) -> ImageSet:
        """Return the foreground alone, each picture once: the same classes without shared ones."""
        chosen = np.flatnonzero(np.isin(self.tiles.labels_N, self.foreground))
        place_C = np.zeros(self.tiles.num_classes, np.int64)
        place_C[list(self.foreground)] = np.arange(len(self.foreground))
        return replace(
            self.tiles.at(chosen),
            name=name,
            labels_N=place_C[self.tiles.labels_N[chosen]],
            class_names=tuple(self.tiles.class_names[label] for label in self.foreground),
            fingerprint=short_hash(repr((self.tiles.fingerprint, self.foreground)).encode()),
            category_N=None,
            category_names=(),
        )


def partitions(classes: int, parts: int) -> Ints:
    """Return the partition that `split` deals each class to, (C,)."""
    partition_C = np.zeros(classes, np.int64)
    if parts == PARTITIONS[PROTOCOL] and classes >= 2 * parts:  # no protocol trains with fewer
        for fold in range(parts):
            partition_C[split(np.arange(classes), PROTOCOL, fold).validation_N] = fold
    return partition_C
