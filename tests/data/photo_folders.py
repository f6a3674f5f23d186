"""Small folders of photos."""

from __future__ import annotations

from pathlib import Path

from data import tiny_layouts

CLASSES, EACH = 4, 3


def photos(base: Path) -> Path:
    """Four classes of three images in each of train and test."""
    for part, first in (("train", 0), ("test", CLASSES)):
        for number in range(first, first + CLASSES):
            for index in range(EACH):
                tiny_layouts.picture(base / part / f"class {number}" / f"{index}.png", number, index)
    return base
