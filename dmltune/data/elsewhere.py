"""Halves of data sets that this machine does not have, from another machine that has them.

On a cluster the driver's node may be the only one with the images. A worker reads their list from there, and
packs the pixels that arrive into its own image cache (packed.py), once a machine.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from dmltune.data import catalog
from dmltune.data.images import ImageSet, Ints, Missing, Part, Pixels
from dmltune.data.packed import packed_here
from dmltune.errors import UserError

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class HalfRequest:
    """What `catalog.load` is asked for."""

    name: str
    part: Part
    path: str | None = None
    missing: Missing = "error"
    test_list: str | None = None

    def here(self, root: Path | None) -> ImageSet:
        options = {"path": self.path, "missing": self.missing, "test_list": self.test_list}
        return catalog.load(self.name, self.part, root, **options)  # type: ignore[arg-type]


class ImageSource(Protocol):
    """Another machine with the images."""

    def describe(self, half: HalfRequest) -> ImageSet:
        """Return the set, without a way to read its pixels. A UserError when it is not there either."""

    def read(self, half: HalfRequest, indices: Ints, side: int | None) -> list[Pixels]:
        """Return images as `ImageSet.read` does."""


_source: ImageSource | None = None  # of this process


def read_missing_from(source: ImageSource | None) -> None:
    """Let this process read halves that are not on this machine from `source`; None: it has no source."""
    global _source
    _source = source


def load(half: HalfRequest, root: Path | None) -> ImageSet:
    """Return a half of a data set: from this machine, or from the source where this one has no copy."""
    try:
        return half.here(root)
    except UserError:
        if _source is None:
            raise
        source, described = _source, _source.describe(half)
    logger.info("%s (%s) is not on this machine: it comes from the driver's node", half.name, half.part)
    return described.with_reader(lambda indices, side: source.read(half, indices, side))


def without_pixels(images: ImageSet) -> ImageSet:
    """Return the set as `ImageSource.describe` sends it."""
    return replace(images, reader=_no_pixels)


def _no_pixels(indices: Ints, side: int | None) -> list[Pixels]:
    raise ValueError("this description of images has no pixels")


def pixels(images: ImageSet, indices: Ints, side: int | None) -> list[Pixels]:
    """Return images for another process, from the packed copy of this machine where there is one.

    None is made here: the process that asks may hold the lock of the same cache.
    """
    chosen = images if side is None else packed_here(images, side)
    return [np.ascontiguousarray(image_HWC) for image_HWC in chosen.read(indices, side)]
