"""CIFAR-100, binary version: 60,000 pictures of 32 × 32 in 100 classes of 20 categories.

The first fifty classes train, the last fifty test. The images of both of CIFAR's parts are joined.
"""

from __future__ import annotations

from pathlib import Path

from dmltune.data.catalog._files import Source
from dmltune.data.catalog._small import cifar_names, cifar_records, half
from dmltune.data.images import ImageSet, Part

FILES = ("train.bin", "test.bin")
SOURCE = Source("cifar100", ("cifar-100-binary",), (FILES,))
SUPER_CLASSES, CLASSES = 20, 100  # a record has its super-class first
PUBLISHED: dict[Part, tuple[int, int]] = {"train": (30000, 50), "test": (30000, 50)}  # images, classes


def load(part: Part, root: Path | None = None) -> ImageSet:
    """Load a part; `root` is the folder with the two files, or its parent."""
    folder = SOURCE.find(root)
    files = [folder / file for file in FILES]
    labels_N2, pixels_NHWC = cifar_records(SOURCE, files, (SUPER_CLASSES, CLASSES))
    parents = cifar_names(SOURCE, folder / "coarse_label_names.txt", SUPER_CLASSES, "category")
    names = cifar_names(SOURCE, folder / "fine_label_names.txt", CLASSES, "class")
    return half("cifar100", part, pixels_NHWC, labels_N2[:, 1], names, labels_N2[:, 0], parents)
