"""Sets of labelled images. Legend: N images, H×W pixels, C channels."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Part = Literal["train", "test"]
Missing = Literal["error", "skip"]  # what to do about listed images that are missing or unreadable
Ints = NDArray[np.int64]
Pixels = NDArray[np.uint8]  # one image, (H, W, C)
Indices = Sequence[int] | Ints
Reader = Callable[[Ints, int | None], list[Pixels]]  # indices, and the shorter side that is enough (a hint)

PHOTO_MARGIN = 256 / 227  # method-facts: evaluation resizes the shorter side to 256 and takes the centre 227


@dataclass(frozen=True, eq=False)
class ImageSet:
    """One half of a data set: labels in memory, pixels on demand.

    `margin` is the shorter side of an image over the side of the square that evaluation uses: 256/227 for
    photos, 1 where the frame matters (glyphs). `key` identifies the files for caches; "" means that reading
    is fast and nothing is cached. `fingerprint` identifies the content.
    """

    name: str
    part: Part
    labels_N: Ints  # 0 … number of classes − 1
    class_names: tuple[str, ...]
    fingerprint: str  # the first 16 hexadecimal digits of a SHA-256
    reader: Reader = field(repr=False)
    category_N: Ints | None = None  # 0 … number of categories − 1, or −1 for not known
    category_names: tuple[str, ...] = ()
    margin: float = PHOTO_MARGIN
    key: str = ""
    query_N: NDArray[np.bool_] | None = None  # query, or else gallery; None: every image is both
    skipped: tuple[str, ...] = ()  # paths in the lists that were left out
    smaller_lists: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)  # test lists within this one

    def __len__(self) -> int:
        return len(self.labels_N)

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    def read(self, indices: Indices, side: int | None = None) -> list[Pixels]:
        """Return the images at `indices`, uint8 (H, W, C), perhaps read-only.

        With `side` their shorter side is scaled down to it; smaller images keep their size.
        """
        images = self.reader(np.asarray(indices, dtype=np.int64), side)
        return images if side is None else [shrink(image_HWC, side) for image_HWC in images]

    def with_reader(self, reader: Reader) -> ImageSet:
        """Return the set with another reader of the same images."""
        return replace(self, reader=reader)

    def first_classes(self, count: int | None) -> ImageSet:
        """Return the set of the first `count` classes, for quick trials and tests."""
        if count is None or count >= self.num_classes:
            return self
        return replace(
            self.at(np.flatnonzero(self.labels_N < count)),
            class_names=self.class_names[:count],
            fingerprint=f"{self.fingerprint}-{count}",
            key=self.key and f"{self.key}-{count}",
        )

    def at(self, chosen_N: Ints) -> ImageSet:
        """Return the set of some images, with the classes, the fingerprint and the key of the whole."""
        return replace(
            self,
            labels_N=self.labels_N[chosen_N],
            reader=lambda indices, side: self.reader(chosen_N[indices], side),
            category_N=None if self.category_N is None else self.category_N[chosen_N],
            query_N=None if self.query_N is None else self.query_N[chosen_N],
            smaller_lists={name: part_N[chosen_N] for name, part_N in self.smaller_lists.items()},
        )


def short_hash(content: bytes) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256."""
    return hashlib.sha256(content).hexdigest()[:16]


def to_pil(image_HWC: Pixels) -> Image.Image:
    return Image.fromarray(image_HWC[:, :, 0] if image_HWC.shape[2] == 1 else image_HWC)


def from_pil(image: Image.Image) -> Pixels:
    pixels = np.asarray(image)
    return pixels[:, :, None] if pixels.ndim == 2 else pixels


def shrink(image_HWC: Pixels, side: int) -> Pixels:
    """Scale down to a shorter side of `side`; smaller images keep their size."""
    if min(image_HWC.shape[:2]) <= side:
        return image_HWC
    return from_pil(shrink_pil(to_pil(image_HWC), side))


def shrink_pil(image: Image.Image, side: int | None) -> Image.Image:
    """Do the same with an image of Pillow; None keeps the size."""
    width, height = image.size
    shorter = min(width, height)
    if side is None or shorter <= side:
        return image
    target = (max(side, round(width * side / shorter)), max(side, round(height * side / shorter)))
    return image.resize(target, Image.Resampling.BICUBIC)
