"""CUB-200-2011: 11,788 photos of 200 birds in the original layout.

The first 100 classes train, the last 100 test.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dmltune.data.catalog._files import Listing, Source
from dmltune.data.images import Part
from dmltune.errors import UserError

FOLDER = "CUB_200_2011"
LISTS = ("classes.txt", "images.txt", "image_class_labels.txt")
SOURCE = Source("cub", (FOLDER,), (LISTS,))
CLASSES: dict[Part, range] = {"train": range(1, 101), "test": range(101, 201)}  # the split every paper uses
PUBLISHED: dict[Part, tuple[int, int]] = {"train": (5864, 100), "test": (5924, 100)}  # images, classes


def load(part: Part, root: Path | None = None) -> Listing:
    """List the images of a part; `root` is the folder CUB_200_2011, or its parent."""
    folder = SOURCE.find(root)
    classes, paths, labels = (_table(folder / name) for name in LISTS)
    wanted = [number for number in CLASSES[part] if str(number) in classes]
    position = {str(number): index for index, number in enumerate(wanted)}
    chosen = [image for image in paths if labels.get(image) in position]
    if len(wanted) < len(CLASSES[part]) or not chosen:
        raise UserError(
            f"cub: {folder} lists {len(wanted)} of the {len(CLASSES[part])} {part} classes and {len(chosen)}"
            " of their images; the copy is incomplete: fetch CUB_200_2011 again."
        )
    labels_N = np.array([position[labels[image]] for image in chosen], dtype=np.int64)
    files, names = [paths[image] for image in chosen], [classes[str(number)] for number in wanted]
    return SOURCE.listing(part, folder, folder / "images.txt", files, labels_N, names, within="images")


def _table(file: Path) -> dict[str, str]:
    rows = (line.split(maxsplit=1) for line in SOURCE.lines(file))
    return {row[0]: row[1].strip() for row in rows if len(row) == 2}
