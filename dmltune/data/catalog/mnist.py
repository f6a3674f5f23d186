"""MNIST: 70,000 handwritten digits of 28 × 28 pixels in idx files, packed or not.

0 to 4 train, 5 to 9 test. The images of MNIST's training and test files are joined.
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np

from dmltune.data.catalog._files import Source
from dmltune.data.catalog._small import half
from dmltune.data.images import ImageSet, Part, Pixels

STEMS = ("train", "t10k")
KINDS = {"images": 3, "labels": 1}  # dimensions
LAYOUTS = tuple(
    tuple(f"{stem}-{kind}{mark}idx{KINDS[kind]}-ubyte{packed}" for stem in STEMS for kind in KINDS)
    for packed in ("", ".gz")
    for mark in ("-", ".")  # as published, and as some programs unpack them
)
SOURCE = Source("mnist", ("MNIST/raw", "MNIST", "mnist", "mnist/raw"), LAYOUTS)
PUBLISHED: dict[Part, tuple[int, int]] = {"train": (35735, 5), "test": (34265, 5)}  # images, classes
LARGEST = 2**28  # bytes in a file: five times what MNIST has


def load(part: Part, root: Path | None = None) -> ImageSet:
    """Load a part; `root` is the folder with the four files, or has it as `MNIST/raw`."""
    folder = SOURCE.find(root)
    files = next(names for names in LAYOUTS if all((folder / name).is_file() for name in names))
    pixels, numbers = [], []
    for image_file, label_file in (files[:2], files[2:]):
        pictures_NHW, digits_N = _idx(folder / image_file, 3), _idx(folder / label_file, 1)
        if len(pictures_NHW) != len(digits_N) or digits_N.max(initial=0) > 9:
            raise SOURCE.broken(
                f"{folder / label_file} must have a digit for each of {len(pictures_NHW)} pictures; got"
                f" {len(digits_N)}, the largest {digits_N.max(initial=0)}"
            )
        pixels.append(pictures_NHW)
        numbers.append(digits_N)
    if pixels[0].shape[1:] != pixels[1].shape[1:]:
        raise SOURCE.broken(f"the pictures in {folder} have different sizes")
    names = [f"digit {number}" for number in range(10)]
    return half("mnist", part, np.concatenate(pixels)[..., None], np.concatenate(numbers), names)


def _idx(file: Path, dimensions: int) -> Pixels:
    """Read an idx file of bytes: 0, 0, 8, the number of dimensions, the sizes, the values."""
    start = 4 + 4 * dimensions
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
            head = stream.read(start)
            if len(head) < start or head[:4] != bytes((0, 0, 8, dimensions)):
                raise SOURCE.broken(f"{file} is not an idx file of bytes in {dimensions} dimensions")
            sizes = np.frombuffer(head, ">u4", offset=4).tolist()
            claimed = int(np.prod(sizes, dtype=object))
            values = stream.read(min(claimed, LARGEST) + 1)  # bounded, whatever the file unpacks to
    except (OSError, EOFError, zlib.error) as error:
        raise SOURCE.broken(f"{file} cannot be read ({error})") from error
    if len(values) != claimed:
        raise SOURCE.broken(f"{file} must have {claimed:,} values after its head; got {len(values):,}")
    return np.frombuffer(values, np.uint8).reshape(sizes)
