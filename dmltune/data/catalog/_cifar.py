"""The binary versions of CIFAR: records of labels and 3 planes of 32 × 32 pixels.

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
    """Return labels below `limits`, (T, labels), and pixels, (T, 32, 32, 3), of all files."""
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


def names(source: Source, file: Path, count: int, kind: str) -> list[str]:
    """Return the lines of a file of names, or `class 7` and so on without such a file."""
    lines = [line.strip() for line in source.lines(file)] if file.is_file() else []
    listed = [line for line in lines if line]
    if len(set(listed)) == count == len(listed):
        return listed
    return [f"{kind} {number}" for number in range(count)]
