"""Decode image files that may be damaged. Legend: H×W pixels, C channels."""

from __future__ import annotations

import contextlib
import struct
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import numpy as np
from PIL import Image, UnidentifiedImageError

from dmltune.data.files import open_regular
from dmltune.data.images import Pixels, from_pil

# Pillow knows forty formats, one of which (EPS) it hands to the interpreter of a programming language.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "PPM")
MAX_PIXELS = 178_956_970  # Pillow refuses more: half a gigabyte of RGB from a header of a few bytes
SERVED_PIXELS = 50_000_000  # of an image that somebody sends
DAMAGED = (  # what Pillow's plugins raise for bytes that make no sense
    *(OSError, EOFError, SyntaxError, ValueError, TypeError, LookupError, ArithmeticError),
    *(NotImplementedError, MemoryError, struct.error, zlib.error, Image.DecompressionBombError),
)

# An unreadable image is reported in one line; a warning about a readable one helps no user.
warnings.filterwarnings("ignore", module=r"PIL\.\w+ImagePlugin")
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)


class UnreadableImageError(Exception):
    """A file cannot be decoded as an image.

    `unidentified`: its format is not known. `damaged`: its bytes are wrong; otherwise it could not be read.
    """

    def __init__(self, error: Exception) -> None:
        self.unidentified = isinstance(error, UnidentifiedImageError)
        self.damaged = not isinstance(error, OSError) or error.errno is None
        text = getattr(error, "strerror", None) or str(error) or type(error).__name__
        if isinstance(error, Image.DecompressionBombError) and not text.startswith("it claims"):
            text = f"it claims more than {MAX_PIXELS:,} pixels"  # Pillow's own refusal
        elif self.unidentified:
            text = "not an image of a known format"
        super().__init__(" ".join(text.split()))


@contextlib.contextmanager
def opened(stream: IO[bytes], most_pixels: int = MAX_PIXELS) -> Iterator[Image.Image]:
    """Open an image for the block; nothing is decoded before its size is known to be allowed.

    What Pillow raises in the block becomes an UnreadableImageError.
    """
    try:
        with Image.open(stream, formats=FORMATS) as image:
            if image.width * image.height > most_pixels:
                raise Image.DecompressionBombError(f"it claims more than {most_pixels:,} pixels")
            yield image
    except DAMAGED as error:
        raise UnreadableImageError(error) from error


def rgb(image: Image.Image) -> Image.Image:
    """Return the image in RGB. Of 16-bit grey levels Pillow itself would make white all above 255."""
    if image.mode.startswith("I;16"):
        grey_HW = np.asarray(image).astype(np.uint16) >> 8
        return Image.fromarray(grey_HW.astype(np.uint8)).convert("RGB")
    if image.mode == "RGB":
        image.load()  # `convert` would copy it: a gigabyte of a large one
        return image
    return image.convert("RGB")


def decode(
    file: Path,
    convert: Callable[[Image.Image], Image.Image],
    side: int | None = None,
    most_pixels: int = MAX_PIXELS,
) -> Pixels:
    """Return the pixels of `file` (H, W, C), after `convert`.

    With `side` a JPEG is decoded at the smallest scale that is not below it, which is quicker.
    """
    try:
        with open_regular(file, "rb") as stream, opened(stream, most_pixels) as image:
            if side is not None:
                image.draft("RGB", (side, side))
            return from_pil(convert(image))
    except OSError as error:
        raise UnreadableImageError(error) from error
