"""What the sets of small pictures in memory share: MNIST, CIFAR and digits.

Their official parts have the same classes. Here the images of both are joined, and the first half of the
classes trains while the second tests.

Legend: N images, C classes, H×W pixels, T records of CIFAR.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmltune.data.catalog._files import Source, dense
from dmltune.data.images import ImageSet, Ints, Part, Pixels

CIFAR_SIDE = 32


def half(
    name: str,
    part: Part,
    pixels_NHWC: Pixels,
    numbers_N: NDArray[np.integer[Any]],
    class_names: Sequence[str],
    parents_N: NDArray[np.integer[Any]] | None = None,
    parent_names: Sequence[str] = (),
) -> ImageSet:
    """Return the images of a part; evaluation uses the whole frame.

    `numbers_N` are indices into `class_names`, `parents_N` into `parent_names`.
    """
    middle = len(class_names) // 2
    mine_N = np.flatnonzero((numbers_N < middle) == (part == "train"))
    labels_N = numbers_N[mine_N].astype(np.int64) - (0 if part == "train" else middle)
    names = tuple(class_names[:middle] if part == "train" else class_names[middle:])
    category_N, category_names = None, ()
    if parents_N is not None:
        present, _, category_N = dense(parents_N[mine_N].astype(np.int64))
        category_names = tuple(parent_names[number] for number in present)
    # one contiguous image at a time: the whole may be a view of a file
    content = hashlib.sha256(repr((names, labels_N.tolist())).encode())
    for index in mine_N:
        content.update(np.ascontiguousarray(pixels_NHWC[index]).data)

    def read(indices: Ints, side: int | None) -> list[Pixels]:
        return list(pixels_NHWC[mine_N[indices]])

    fingerprint = content.hexdigest()[:16]
    return ImageSet(name, part, labels_N, names, fingerprint, read, category_N, category_names, margin=1.0)


def cifar_records(source: Source, files: Sequence[Path], limits: Sequence[int]) -> tuple[Pixels, Pixels]:
    """Return labels below `limits`, (T, labels), and pixels, (T, 32, 32, 3), of binary CIFAR files."""
    size = len(limits) + 3 * CIFAR_SIDE * CIFAR_SIDE
    parts = []
    for file in files:
        length = file.stat().st_size
        if length == 0 or length % size:
            raise source.broken(
                f"{file} must have a whole number of records of {size} bytes; got {length} bytes"
            )
        records_TR = np.asarray(np.memmap(file, np.uint8, mode="r")).reshape(-1, size)
        for column, limit in enumerate(limits):
            if (worst := records_TR[:, column].max()) >= limit:
                raise source.broken(f"{file} has a label above {limit - 1}: {worst}")
        parts.append(records_TR)
    all_TR = np.concatenate(parts)
    labels, pixels = all_TR[:, : len(limits)], all_TR[:, len(limits) :]
    return labels, pixels.reshape(-1, 3, CIFAR_SIDE, CIFAR_SIDE).transpose(0, 2, 3, 1)


def cifar_names(source: Source, file: Path, count: int, kind: str) -> list[str]:
    """Return the lines of a file of names, or `class 7` and so on without such a file."""
    lines = source.lines(file) if file.is_file() else []
    listed = [line.strip() for line in lines if line.strip()]
    if len(set(listed)) == count == len(listed):
        return listed
    return [f"{kind} {number}" for number in range(count)]
