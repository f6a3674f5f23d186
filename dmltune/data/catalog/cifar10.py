"""CIFAR-10, binary version: 60,000 pictures of 32 × 32 in 10 classes.

The first five classes train, the last five test. The images of both of CIFAR's parts are joined.
"""

from __future__ import annotations

from pathlib import Path

from dmltune.data.catalog._files import Source
from dmltune.data.catalog._small import cifar_names, cifar_records, half
from dmltune.data.images import ImageSet, Part

FILES = (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin")
SOURCE = Source("cifar10", ("cifar-10-batches-bin",), (FILES,))
CLASSES = 10
PUBLISHED: dict[Part, tuple[int, int]] = {"train": (30000, 5), "test": (30000, 5)}  # images, classes


def load(part: Part, root: Path | None = None) -> ImageSet:
    """Load a part; `root` is the folder with the six files, or its parent."""
    folder = SOURCE.find(root)
    labels_N1, pixels_NHWC = cifar_records(SOURCE, [folder / file for file in FILES], (CLASSES,))
    names = cifar_names(SOURCE, folder / "batches.meta.txt", CLASSES, "class")
    return half("cifar10", part, pixels_NHWC, labels_N1[:, 0], names)
