"""What the sets of small pictures in memory share: MNIST, CIFAR and digits.

Their official parts have the same classes. Here the images of both are joined, and the first half of the
classes trains while the second tests.

Legend: N images, C classes, H×W pixels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmltune.data.images import ImageSet, Ints, Part, Pixels


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
    category_N: Ints | None = None
    category_names: tuple[str, ...] = ()
    if parents_N is not None:
        present, place_N = np.unique(parents_N[mine_N], return_inverse=True)
        category_N = place_N.astype(np.int64)
        category_names = tuple(parent_names[number] for number in present)
    # one contiguous image at a time: the whole may be a view of a file
    content = hashlib.sha256(repr((names, labels_N.tolist())).encode())
    for index in mine_N:
        content.update(np.ascontiguousarray(pixels_NHWC[index]).data)

    def read(indices: Ints, side: int | None) -> list[Pixels]:
        return list(pixels_NHWC[mine_N[indices]])

    fingerprint = content.hexdigest()[:16]
    return ImageSet(name, part, labels_N, names, fingerprint, read, category_N, category_names, margin=1.0)
