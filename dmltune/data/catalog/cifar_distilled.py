"""cifar_distilled: the classes of cifar_collage as single pictures ("distilled" in Fig. 5.5 of the thesis).

What remains of a collage without its shared classes: 48 classes to train on, in the partitions of
cifar_collage, and 32 to test on.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dmltune.data.catalog import cifar_collage
from dmltune.data.images import ImageSet, Part

SOURCE = replace(cifar_collage.SOURCE, name="cifar_distilled")


def load(part: Part, root: Path | None = None) -> ImageSet:
    """Load a part; `root` is the folder with CIFAR-100's two files, or its parent."""
    return cifar_collage.recipe(part, root).distilled("cifar_distilled")
