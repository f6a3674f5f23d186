"""A set of labelled images. Legend: N images, H×W pixels, C channels (1 or 3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Part = Literal["train", "test"]
Ints = NDArray[np.int64]
Pixels = NDArray[np.uint8]  # one image, (H, W, C)
Indices = Sequence[int] | Ints
Reader = Callable[[Ints], list[Pixels]]

PHOTO_MARGIN = 256 / 227  # method-facts: evaluation resizes the shorter side to 256 and takes the centre 227


@dataclass(frozen=True, eq=False)
class ImageSet:
    """What a data set is to the rest: labels in memory, pixels on demand.

    `margin` is the shorter side of an image over the side of the square that evaluation looks at: 256/227 for photos,
    1 where the frame matters (glyphs). `key` names the exact files for caches; `fingerprint` names the content for people.
    """

    name: str
    part: Part
    labels_N: Ints  # 0 … number of classes − 1
    class_names: tuple[str, ...]
    fingerprint: str  # the first 16 hexadecimal digits of a SHA-256
    reader: Reader = field(repr=False)
    category_N: Ints | None = None
    category_names: tuple[str, ...] = ()
    margin: float = PHOTO_MARGIN
    key: str = ""

    def __len__(self) -> int:
        return len(self.labels_N)

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    def read(self, indices: Indices) -> list[Pixels]:
        """The images at `indices`, in that order, each uint8 (H, W, C). They may be read-only views of a memory map."""
        return self.reader(np.asarray(indices, dtype=np.int64))

    def with_reader(self, reader: Reader) -> ImageSet:
        return replace(self, reader=reader)
