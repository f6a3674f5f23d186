"""Stanford Online Products: 120,053 photos of 22,634 products for sale, in 12 categories."""

from __future__ import annotations

from pathlib import Path

from dmltune.data.catalog._files import Listing, Source, dense
from dmltune.data.images import Part

LISTS: dict[Part, str] = {"train": "Ebay_train.txt", "test": "Ebay_test.txt"}
SOURCE = Source("sop", ("Stanford_Online_Products",), (tuple(LISTS.values()),))
PUBLISHED: dict[Part, tuple[int, int]] = {"train": (59551, 11318), "test": (60502, 11316)}  # images, classes

RECALL_KS = (1, 10, 100, 1000)


def load(part: Part, root: Path | None = None) -> Listing:
    """List the images of a part; `root` is the folder Stanford_Online_Products, or its parent."""
    folder = SOURCE.find(root)
    listed = folder / LISTS[part]
    rows = SOURCE.table(listed, columns=4, header=1)  # image_id class_id super_class_id path
    paths = [row[3] for row in rows]
    kinds = [path.split("/")[0].removesuffix("_final") for path in paths]
    classes, first_C, labels_N = dense(SOURCE.numbers(listed, [row[1] for row in rows]))
    _, first_K, category_N = dense(SOURCE.numbers(listed, [row[2] for row in rows]))
    return SOURCE.listing(
        part,
        folder,
        listed,
        paths,
        labels_N,
        [f"{kinds[first]} {number}" for first, number in zip(first_C, classes, strict=True)],
        details=[labels_N.tolist(), category_N.tolist()],
        category_N=category_N,
        category_names=tuple(kinds[first] for first in first_K),
    )
