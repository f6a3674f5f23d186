"""How much memory one image takes while it is decoded, and that saving it changed no pixel.

Legend: H×W pixels, C channels.
"""

from __future__ import annotations

import io
import re
import struct
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

from dmltune.data import decoding
from dmltune.data.catalog._files import Source
from dmltune.data.catalog.own import OwnSource
from dmltune.data.decoding import MAX_BYTES, UnreadableImageError, bands, decode, opened
from dmltune.data.images import from_pil, shrink, to_pil
from dmltune.data.verify import state_of

pytestmark = [
    pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning"),
    pytest.mark.filterwarnings("ignore:Palette images with Transparency"),
]
NEAR_THE_LIMIT = {  # size, mode, and how Pillow writes it
    "rotated.png": "(7000, 7100), 'RGBA', dict(compress_level=1, exif=turned)",
    "strip.tif": "(6300, 6300), 'RGBA', dict(compression='tiff_lzw', tiffinfo={278: 6300})",
    "floats.tif": "(6300, 6300), 'F', {}",
    "alpha.webp": "(4990, 5000), 'RGBA', dict(method=0)",
    "palette.gif": "(7000, 7100), 'P', {}",
    "cmyk.jpg": "(7000, 7000), 'CMYK', dict(progressive=True)",
    "progressive.jpg": "(8000, 8000), 'RGB', dict(progressive=True, subsampling=0)",
    "whole.jpg": "(13300, 13400), 'L', {}",
}
WRITE = """
import sys
from PIL import Image
turned = Image.Exif()
turned[0x112] = 6
size, mode, options = {}
Image.MAX_IMAGE_PIXELS = None
colour = 100 if mode in "FLP" else (90, 110, 130, 150)[: len(mode)]
Image.new(mode, size, colour).save(sys.argv[1], **options)
"""
READ = """
import resource, sys
from pathlib import Path
from dmltune.data.catalog.own import OwnSource
from dmltune.data.decoding import decode
from dmltune.data.verify import state_of
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = peak()
shape = decode(Path(sys.argv[1]), OwnSource.converted, 256).shape
if sys.argv[1].endswith(".jpg"):
    assert state_of(Path(sys.argv[1])).kind is None
print(min(shape[:2]), peak() - before)
"""


def run(program: str, file: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", NEAR_THE_LIMIT)
def test_the_largest_images_take_less_than_half_a_gigabyte(name: str, tmp_path: Path) -> None:
    run(WRITE.replace("{}", NEAR_THE_LIMIT[name], 1), tmp_path / name)
    shorter, grown = map(int, run(READ, tmp_path / name).split())
    assert shorter == 256
    assert grown < 1.15 * MAX_BYTES, f"{grown / 1e6:.0f} MB"


@pytest.mark.parametrize(
    ("form", "size", "says"),
    [
        ("PNG", (7100, 7100), "it claims 50,410,000 pixels; a PNG may have 50,000,000"),
        ("TIFF", (6400, 6400), "it claims 40,960,000 pixels; a TIFF may have 40,000,000"),
        ("WEBP", (5001, 5000), "it claims 25,005,000 pixels; a WEBP may have 25,000,000"),
        ("PNG", (65_536, 2), "it claims a side of more than 65,535 pixels"),
        ("GIF", (8000, 8000), "it claims 64,000,000 pixels; a GIF may have 50,000,000"),
    ],
)
def test_larger_ones_are_refused_before_decoding(form: str, size: tuple[int, int], says: str) -> None:
    stream = io.BytesIO()
    Image.new("L", size).save(stream, form, **({"method": 0} if form == "WEBP" else {}))
    with pytest.raises(UnreadableImageError, match=f"^{re.escape(says)}$"), opened(stream):
        raise AssertionError("it was opened")


def jpeg(width: int, height: int, scans: str) -> io.BytesIO:
    """A JPEG whose header claims a size; its scans are of all colours, of one colour, or progressive."""
    stream = io.BytesIO()
    Image.new("RGB", (16, 16)).save(stream, "JPEG", subsampling=0, progressive=scans == "progressive")
    content = bytearray(stream.getvalue())
    frame = content.index(b"\xff\xc2" if scans == "progressive" else b"\xff\xc0")
    content[frame + 5 : frame + 9] = struct.pack(">HH", height, width)
    if scans == "one colour":
        scan = content.index(b"\xff\xda")
        content[scan : scan + 14] = b"\xff\xda" + struct.pack(">HB", 8, 1) + b"\1\0\0\x3f\0"
    return io.BytesIO(bytes(content))


@pytest.mark.parametrize("scans", ["progressive", "one colour"])
def test_a_jpeg_of_several_scans_keeps_its_coefficients_so_its_limit_is_lower(scans: str) -> None:
    """4:4:4: 6 bytes a pixel at any scale, and the image at an eighth."""
    with opened(jpeg(7700, 7700, scans)) as image:
        assert image.size == (1925, 1925)  # at a quarter: half would take 474 MB
    says = "it claims 72,250,000 pixels; a progressive JPEG may have 65,306,122"
    with pytest.raises(UnreadableImageError, match=says), opened(jpeg(8500, 8500, scans)):
        raise AssertionError("it was opened")


@pytest.mark.parametrize(
    ("size", "side", "decoded"),
    [
        ((7000, 7000), None, (7000, 7000)),
        ((7100, 7100), None, (3550, 3550)),  # 403 MB at full size
        ((13_300, 13_400), None, (6650, 6700)),
        ((13_300, 13_400), 256, (1663, 1675)),
        ((1000, 900), 256, (500, 450)),
        ((1000, 900), 2000, (1000, 900)),
    ],
)
def test_a_jpeg_is_decoded_at_a_smaller_scale_where_it_takes_too_much_or_less_is_enough(
    size: tuple[int, int], side: int | None, decoded: tuple[int, int]
) -> None:
    with opened(jpeg(*size, "baseline"), side=side) as image:
        assert image.size == decoded


def test_large_images_are_decoded_one_after_another_and_small_ones_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def together(image_bytes: bytes) -> bool:
        both = threading.Barrier(2)

        def read(_: int) -> bool:
            with opened(io.BytesIO(image_bytes)):
                try:
                    both.wait(0.5)
                except threading.BrokenBarrierError:
                    return False
                return True

        with ThreadPoolExecutor(2) as pool:
            return all(pool.map(read, range(2)))

    stream = io.BytesIO()
    Image.new("RGB", (100, 100)).save(stream, "PNG")
    assert together(stream.getvalue())
    monkeypatch.setattr(decoding, "LARGE_BYTES", 50_000)
    assert not together(stream.getvalue())


def converted_whole(image: Image.Image) -> Image.Image:
    """The conversion as a whole: EXIF, 16 bits, then white ground."""
    ImageOps.exif_transpose(image, in_place=True)
    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image).astype(np.uint16) >> 8).astype(np.uint8)).convert("RGB")
    if not image.has_transparency_data:
        return image.convert("RGB")
    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA")).convert("RGB")


MODES = ("RGB", "RGBA", "LA", "L", "P", "1", "CMYK", "I;16", "I;16B", "key", "palette")


@pytest.mark.parametrize("mode", MODES)
def test_bands_and_scaling_before_the_copy_change_no_pixel(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(0)
    pixels_HWC = random.integers(0, 256, (57, 91, 4), dtype=np.uint8)
    image, options = Image.fromarray(pixels_HWC), {}
    if mode.startswith("I;16"):
        grey_HW = random.integers(0, 65536, (57, 91)).astype(">u2" if mode == "I;16B" else "<u2")
        image = Image.fromarray(grey_HW)
    elif mode == "key":
        image, options = image.convert("L"), {"transparency": 7}
    elif mode == "palette":
        image, options = image.convert("RGB").quantize(16), {"transparency": bytes(range(0, 160, 10))}
    elif mode != "RGBA":
        image = image.convert("RGB").convert(mode)
    turned = Image.Exif()
    turned[0x112] = 6
    file = tmp_path / ("x.tif" if mode in ("CMYK", "I;16B") else "x.png")
    image.save(file, exif=turned, **options)
    with file.open("rb") as stream, Image.open(stream) as stored:
        assert stored.mode == mode or mode in ("key", "palette")
        whole = converted_whole(stored)
    monkeypatch.setattr(decoding, "BAND_PIXELS", 200)
    assert len(list(bands(image))) > 20
    assert np.array_equal(decode(file, OwnSource.converted), np.asarray(whole))
    for side in (20, 56, 57, 300):
        expected = shrink(from_pil(whole), side)
        assert np.array_equal(decode(file, OwnSource.converted, side), expected)
    with file.open("rb") as stream, Image.open(stream) as stored:  # without rotation and white ground
        plain = Source.converted(stored.copy())
    assert np.array_equal(decode(file, Source.converted, 20), shrink(from_pil(plain), 20))
    assert to_pil(from_pil(plain)).size == plain.size


def test_a_file_that_is_larger_than_any_image_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "x.png").open("wb") as stream:
        stream.truncate(1 << 40)  # it has holes only
    assert state_of(tmp_path / "x.png").text == "larger than 1.1 GB"
