"""The binary versions of CIFAR: records of one or two labels and 32 × 32 pixels, red, green and blue apart.

Legend: T records.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dmltune.data.catalog._files import Source
from dmltune.data.images import Pixels

SIDE = 32
PIXELS = 3 * SIDE * SIDE


def records(source: Source, files: Sequence[Path], limits: Sequence[int]) -> tuple[Pixels, Pixels]:
    """(T, labels) and (T, 32, 32, 3) of all files one after the other; a label lies below its limit."""
    size = len(limits) + PIXELS
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
    return labels, pixels.reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1)


def names(source: Source, file: Path, count: int, word: str) -> list[str]:
    """The lines of a file of names; `class 7` where there is none, for names are not needed."""
    lines = [line.strip() for line in source.lines(file)] if file.is_file() else []
    found = [line for line in lines if line]
    return (
        found if len(set(found)) == count == len(found) else [f"{word} {number}" for number in range(count)]
    )
