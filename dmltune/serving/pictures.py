"""Pictures of any kind as evaluation sees them: files, bytes, Pillow images, arrays.

Legend: N pictures, H×W pixels, C channels.
"""

from __future__ import annotations

import base64
import io
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from dmltune.data.catalog._files import Source
from dmltune.data.catalog.own import OwnSource
from dmltune.data.decoding import DAMAGED, MAX_PIXELS, UnreadableImageError, decode, opened, opened_file
from dmltune.data.images import ImageSet, Ints, Pixels, from_pil, shrink, shrink_pil
from dmltune.errors import UserError, readable

Picture = Any  # a path, bytes of a file, a Pillow image, or an array


class LateError(UserError):
    """The time for reading pictures is over."""


@dataclass
class Pictures:
    """Pictures to embed. With `skip` those that cannot be read are black, and `unreadable` says why.

    None is read after `deadline`, a time of `time.monotonic()`: a LateError.
    """

    items: Sequence[Picture]
    upright: bool  # apply the EXIF rotation
    most_pixels: int = MAX_PIXELS
    skip: bool = False
    deadline: float = math.inf
    unreadable: dict[int, str] = field(default_factory=dict)

    def image_set(self, margin: float) -> ImageSet:
        return ImageSet(
            "pictures", "test", np.zeros(len(self.items), dtype=np.int64), ("",), "", self.read, margin=margin
        )

    def read(self, indices: Ints, side: int | None) -> list[Pixels]:
        return [self._one(int(index), side) for index in indices]

    def _one(self, index: int, side: int | None) -> Pixels:
        if time.monotonic() > self.deadline:
            raise LateError(f"the images take too long: {index} of {len(self.items)} are read. Send fewer.")
        try:
            pixels = self._pixels(self.items[index], side)
        except (UnreadableImageError, UserError) as error:
            item = self.items[index]
            name = readable(str(item)) if isinstance(item, str | Path) else f"image {index + 1}"
            if not self.skip:
                raise UserError(f"{name} cannot be read ({error}). Put it right or leave it out.") from None
            self.unreadable[index] = str(error)
            return np.zeros((1, 1, 3), dtype=np.uint8)
        return pixels if side is None else shrink(pixels, side)  # now: a batch of large photos is large

    def _pixels(self, item: Picture, side: int | None) -> Pixels:
        if isinstance(item, str | Path):
            return decode(Path(item), self._converted, side, self.most_pixels)
        if isinstance(item, bytes | bytearray | memoryview):
            with opened(io.BytesIO(item), self.most_pixels, side) as image:
                return from_pil(shrink_pil(self._converted(image), side))
        if isinstance(item, Image.Image):
            try:
                return from_pil(shrink_pil(self._converted(item.copy()), side))  # it may be turned in place
            except DAMAGED as error:
                raise UnreadableImageError(error) from error
        return from_array(item)

    @property
    def _converted(self) -> Callable[[Image.Image], Image.Image]:
        return OwnSource.converted if self.upright else Source.converted


def from_array(array: Any) -> Pixels:
    """Return the pixels of an array (H, W), (H, W, 1) or (H, W, 3): uint8, or numbers from 0 to 1."""
    pixels = np.asarray(array)
    pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels
    if pixels.ndim != 3 or pixels.shape[2] not in (1, 3) or not pixels.size:
        raise UserError(
            f"an array must have the shape (H, W), (H, W, 1) or (H, W, 3); got {tuple(np.shape(array))}"
        )
    if pixels.dtype == np.uint8:
        same: Pixels = pixels
        return same
    if not np.issubdtype(pixels.dtype, np.floating) or not (pixels.min() >= 0 and pixels.max() <= 1):
        raise UserError(f"an array must be uint8, or floating point from 0 to 1; got {pixels.dtype}")
    rounded: Pixels = np.rint(pixels * 255).astype(np.uint8)
    return rounded


def thumbnail(file: Path, upright: bool, longer_side: int = 224) -> str:
    """Return a small JPEG as a data URI, "" when the file cannot be read."""
    try:
        with opened_file(file, side=longer_side) as image:
            small = (OwnSource.converted if upright else Source.converted)(image)
            small.thumbnail((longer_side, longer_side))
            buffer = io.BytesIO()
            small.save(buffer, "JPEG", quality=82)
    except (OSError, ValueError, UnreadableImageError):
        return ""
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


def as_list(images: Picture | Iterable[Picture]) -> list[Picture]:
    """Return one picture, several, or an array (N, H, W, C) of them as a list."""
    if isinstance(images, str | Path | bytes | bytearray | memoryview | Image.Image):
        return [images]
    if isinstance(images, np.ndarray) and images.ndim in (2, 3):
        return [images]
    return list(images)
