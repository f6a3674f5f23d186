"""cifar_collage: the collage study of the thesis (§5.3.2) on CIFAR-100.

Of the 20 super-classes four are shared; the text does not say which. Of the five sub-classes of a super-class
two are for training, one for validation and two for test. Here the part "train" is both training and
validation: three sub-classes, one in each partition of protocol `ablation`, which validates on one of them.
The images of both of CIFAR's parts are joined.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dmltune.data.catalog._collage import PROTOCOL, CollageSet, Recipe
from dmltune.data.catalog._files import Source
from dmltune.data.catalog._small import cifar_names, cifar_records
from dmltune.data.images import ImageSet, Ints, Part, Pixels, short_hash
from dmltune.data.splits import PARTITIONS

FILES = ("train.bin", "test.bin")
NAMES, PARENT_NAMES = "fine_label_names.txt", "coarse_label_names.txt"  # optional, beside them
SOURCE = Source("cifar_collage", ("cifar-100-binary",), (FILES,))
CLASSES, SUPER_CLASSES = 100, 20
SHARED = (4, 10, 17, 9)  # fruit and vegetables, natural outdoor scenes, trees, man-made outdoor things
SUB_CLASSES: dict[Part, slice] = {"train": slice(0, 3), "test": slice(3, 5)}


def load(part: Part, root: Path | None = None) -> CollageSet:
    """Load a part; `root` is the folder with the two files, or its parent."""
    return recipe(part, root).collages()


def recipe(part: Part, root: Path | None) -> Recipe:
    """Return how the collages of a part are made of its single pictures."""
    tiles = singles(part, root)
    assert tiles.category_N is not None
    first_C = np.unique(tiles.labels_N, return_index=True)[1]
    parent_C = tiles.category_N[first_C]
    members = {parent: np.flatnonzero(parent_C == parent) for parent in range(SUPER_CLASSES)}
    foreground = [int(label) for parent in members if parent not in SHARED for label in members[parent]]
    columns = range(PARTITIONS[PROTOCOL]) if part == "train" else [slice(None)]
    shared = [np.ravel([members[parent][column] for parent in SHARED]) for column in columns]
    pools = tuple(tuple(pool.tolist()) for pool in shared)
    return Recipe("cifar_collage", part, tiles, tuple(foreground), pools)


def singles(part: Part, root: Path | None) -> ImageSet:
    """Return the pictures of all sub-classes of a part, with the super-class as their category."""
    folder = SOURCE.find(root)
    labels_T2, pixels_T = cifar_records(SOURCE, [folder / file for file in FILES], (SUPER_CLASSES, CLASSES))
    coarse_T, fine_T = labels_T2.astype(np.int64).T
    chosen = [np.unique(fine_T[coarse_T == parent])[SUB_CLASSES[part]] for parent in range(SUPER_CLASSES)]
    used = np.sort(np.concatenate(chosen))
    mine_T = np.flatnonzero(np.isin(fine_T, used))
    used_pixels_T, used_labels_T = pixels_T[mine_T], np.searchsorted(used, fine_T[mine_T])

    def read(indices: Ints, side: int | None) -> list[Pixels]:
        return list(used_pixels_T[indices])

    fingerprint = short_hash(used_labels_T.tobytes() + used_pixels_T.tobytes())
    class_names = cifar_names(SOURCE, folder / NAMES, CLASSES, "class")
    parents = tuple(cifar_names(SOURCE, folder / PARENT_NAMES, SUPER_CLASSES, "category"))
    names = tuple(class_names[label] for label in used)
    return ImageSet(
        "cifar", part, used_labels_T, names, fingerprint, read, coarse_T[mine_T], parents, margin=1.0
    )
