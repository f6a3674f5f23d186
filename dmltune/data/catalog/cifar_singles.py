"""cifar_singles: all sub-classes in the training part of cifar_collage, as single pictures, to pretrain on.

Of every super-class, shared ones included, three sub-classes train and two test: no picture of a test class
of cifar_collage is among those to train on. The text pretrains on all classes of CIFAR-100.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dmltune.data.catalog import cifar_collage
from dmltune.data.images import ImageSet, Part

SOURCE = replace(cifar_collage.SOURCE, name="cifar_singles")
PUBLISHED: dict[Part, tuple[int, int]] = {"train": (36000, 60), "test": (24000, 40)}  # images, classes


def load(part: Part, root: Path | None = None) -> ImageSet:
    """Load a part; `root` is the folder with CIFAR-100's two files, or its parent."""
    return replace(cifar_collage.singles(part, root), name="cifar_singles")
