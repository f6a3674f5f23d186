"""Photos decoded once a machine: a memory-mapped file that every later trial and worker reads instead of
JPEGs.

Legend: N images, H×W pixels.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from dmltune.data.cache import cached
from dmltune.data.images import ImageSet, Ints, Pixels

VERSION = 1
CHUNK = 256


def at_size(imageset: ImageSet, size: int) -> ImageSet:
    """The same images with the shorter side that training and evaluation at `size` pixels need (256 for 227).

    Smaller images keep their size. A set without `key` is quick to read and is returned as it is.
    """
    if not imageset.key:
        return imageset
    side = math.ceil(size * imageset.margin)
    entry = f"{imageset.name}-{imageset.part}-{side}px-{imageset.key}-v{VERSION}"
    return cached(entry, lambda folder: _pack(imageset, side, folder), lambda folder: _open(imageset, folder))


def _pack(imageset: ImageSet, side: int, folder: Path) -> None:
    shapes = []
    with (folder / "pixels").open("wb") as stream:
        for start in range(0, len(imageset), CHUNK):
            for image_HWC in imageset.read(np.arange(start, min(start + CHUNK, len(imageset))), side):
                shapes.append(image_HWC.shape)
                stream.write(np.ascontiguousarray(image_HWC).data)
    np.save(folder / "shapes.npy", np.array(shapes, dtype=np.int64).reshape(-1, 3))


def _open(imageset: ImageSet, folder: Path) -> ImageSet:
    shapes_N3 = np.load(folder / "shapes.npy", allow_pickle=False)
    pixels = np.asarray(np.memmap(folder / "pixels", dtype=np.uint8, mode="r"))
    ends_N = np.cumsum(shapes_N3.prod(axis=1))
    if len(shapes_N3) != len(imageset) or ends_N[-1] != len(pixels):
        raise ValueError(f"{folder}: pixels and shapes do not match")

    def read(indices: Ints, side: int | None) -> list[Pixels]:
        return [pixels[ends_N[i] - shapes_N3[i].prod() : ends_N[i]].reshape(shapes_N3[i]) for i in indices]

    return imageset.with_reader(read)
