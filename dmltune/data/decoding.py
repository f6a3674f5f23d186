"""Decode image files that may be damaged, in bounded memory. Legend: H×W pixels, C channels."""

from __future__ import annotations

import contextlib
import struct
import threading
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import numpy as np
from PIL import Image, UnidentifiedImageError
from PIL.JpegImagePlugin import JpegImageFile

from dmltune.data.files import open_regular
from dmltune.data.images import Pixels, from_pil, shrink_pil

# Pillow knows forty formats, one of which (EPS) it hands to the interpreter of a programming language.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "PPM")
MAX_PIXELS = 178_956_970  # of a JPEG; Pillow refuses more of any format
MAX_SIDE = 65_535  # of a JPEG too: what is thinner would stay large when its shorter side is scaled
MAX_BYTES = 400_000_000  # of memory for one image, while it is decoded, converted and scaled
# Pillow stores a pixel of RGB in 4 bytes; conversion and rotation make a second image. libtiff may have a
# strip and its compressed bytes, libwebp two images and a copy of the result.
BYTES_PER_PIXEL, MORE_BYTES_PER_PIXEL = 8, {"TIFF": 10, "WEBP": 16}
BAND_PIXELS = 1 << 20
LARGE_BYTES = 200_000_000  # images that take more are decoded one after another
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
def opened(
    stream: IO[bytes], most_pixels: int = MAX_PIXELS, side: int | None = None
) -> Iterator[Image.Image]:
    """Open an image for the block; nothing is decoded before its size is known to be allowed.

    With `side` a JPEG is decoded at the smallest scale that is not below it, which is quicker. One that takes
    more than MAX_BYTES is decoded at a smaller scale also without. What Pillow raises in the block becomes an
    UnreadableImageError.
    """
    try:
        with Image.open(stream, formats=FORMATS) as image:
            if image.width * image.height > most_pixels:
                raise Image.DecompressionBombError(f"it claims more than {most_pixels:,} pixels")
            if max(image.size) > MAX_SIDE:
                raise Image.DecompressionBombError(f"it claims a side of more than {MAX_SIDE:,} pixels")
            needed = _choose_scale(image, side)
            with _LARGE if needed > LARGE_BYTES else contextlib.nullcontext():
                yield image
    except DAMAGED as error:
        raise UnreadableImageError(error) from error


_LARGE = threading.Lock()


def _choose_scale(image: Image.Image, side: int | None) -> int:
    """Set the scale of a JPEG; return the bytes that decoding takes. More than MAX_BYTES is an error."""
    pixels, form = image.width * image.height, image.format
    whole: float = MORE_BYTES_PER_PIXEL.get(form or "", BYTES_PER_PIXEL)
    scaled, scales = 0, [1]
    if isinstance(image, JpegImageFile):
        whole, scaled, scales = _coefficient_bytes(image), BYTES_PER_PIXEL, [1, 2, 4, 8]
        wanted = min(image.size) // max(side, 1) if side is not None else 1
        scales = [scale for scale in scales if scale <= wanted][-1:] + [s for s in scales if s > wanted]
    scale = next((s for s in scales if pixels * (whole + scaled / s**2) <= MAX_BYTES), None)
    if scale is None:
        most = int(MAX_BYTES / (whole + scaled / scales[-1] ** 2))
        kind = f"{'progressive ' * (scaled > 0)}{form}"
        raise Image.DecompressionBombError(f"it claims {pixels:,} pixels; a {kind} may have {most:,}")
    if isinstance(image, JpegImageFile):
        image.draft("RGB", (max(1, image.width // scale), max(1, image.height // scale)))
    return int(pixels * (whole + scaled / scale**2))


def _coefficient_bytes(image: JpegImageFile) -> float:
    """Return the bytes that libjpeg keeps for each pixel until the last scan: 0 where there is one scan.

    Two for each sample, at any scale. Pillow has read the header of the first scan, and does not keep it.
    """
    stream = image.fp
    assert stream is not None
    place = stream.tell()
    for components in (1, 2, 3, 4):
        length = 6 + 2 * components
        stream.seek(max(0, place - length - 2))
        if stream.read(5) == b"\xff\xda" + struct.pack(">HB", length, components):
            break
    stream.seek(place)
    if components == len(image.layer) and not image.info.get("progressive"):
        return 0
    rows, columns = (max(1, *(layer[axis] for layer in image.layer)) for axis in (1, 2))
    return sum(2 * layer[1] * layer[2] for layer in image.layer) / (rows * columns)


def bands(image: Image.Image) -> Iterator[tuple[int, Image.Image]]:
    """Yield the image in bands of rows, and the row that each begins with: a copy of a band is small."""
    rows = max(1, BAND_PIXELS // image.width)
    for top in range(0, image.height, rows):
        yield top, image.crop((0, top, image.width, min(top + rows, image.height)))


def rgb(image: Image.Image) -> Image.Image:
    """Return the image in RGB. Of 16-bit grey levels Pillow itself would make white all above 255."""
    if image.mode.startswith("I;16"):
        result = Image.new("RGB", image.size)
        for top, band in bands(image):
            grey_HW = np.asarray(band).astype(np.uint16) >> 8
            result.paste(Image.fromarray(grey_HW.astype(np.uint8)).convert("RGB"), (0, top))
        return result
    if image.mode == "RGB":
        image.load()  # `convert` would copy it
        return image
    return image.convert("RGB")


def on_white(image: Image.Image) -> Image.Image:
    """Return the image in RGB, with white where it is transparent."""
    result = Image.new("RGB", image.size)
    for top, band in bands(image):
        ground = Image.new("RGBA", band.size, "white")
        ground.alpha_composite(band.convert("RGBA"))
        result.paste(ground.convert("RGB"), (0, top))
    return result


@contextlib.contextmanager
def opened_file(file: Path, most_pixels: int = MAX_PIXELS, side: int | None = None) -> Iterator[Image.Image]:
    """Open an image file for the block, as `opened` does."""
    try:
        with open_regular(file, "rb") as stream, opened(stream, most_pixels, side) as image:
            yield image
    except OSError as error:
        raise UnreadableImageError(error) from error


def decode(
    file: Path,
    convert: Callable[[Image.Image], Image.Image],
    side: int | None = None,
    most_pixels: int = MAX_PIXELS,
) -> Pixels:
    """Return the pixels of `file` (H, W, C), after `convert`, scaled down to a shorter side of `side`."""
    with opened_file(file, most_pixels, side) as image:
        return from_pil(shrink_pil(convert(image), side))
