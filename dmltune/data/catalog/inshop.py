"""In-shop Clothes Retrieval: 52,712 photos of 7,982 clothes in 23 categories.

The test half has queries and a gallery.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dmltune.data.catalog._files import Listing, Source
from dmltune.data.images import Part
from dmltune.errors import readable

LIST = "list_eval_partition.txt"
SOURCE = Source(
    "inshop",
    ("In-shop Clothes Retrieval Benchmark", "In-shop", "inshop", "InShop"),
    ((f"Eval/{LIST}",), (f"Anno/{LIST}",), (LIST,)),
)
STATUS: dict[Part, tuple[str, ...]] = {"train": ("train",), "test": ("query", "gallery")}
# images, classes; of the test images 14,218 are queries and 12,612 the gallery
PUBLISHED: dict[Part, tuple[int, int]] = {"train": (25882, 3997), "test": (26830, 3985)}

RECALL_KS = (1, 10, 20, 30, 40, 50)


def load(part: Part, root: Path | None = None) -> Listing:
    """List the images of a part; `root` is the folder with Eval and img, or its parent."""
    folder = SOURCE.find(root)
    listed = next(folder / file for (file,) in SOURCE.layouts if (folder / file).is_file())
    rows = SOURCE.table(listed, columns=3, header=2)  # image_name item_id evaluation_status
    count = SOURCE.lines(listed)[0].strip()
    if count != str(len(rows)):
        raise SOURCE.broken(f"{listed} claims {readable(count)} images and lists {len(rows)}")
    chosen = [row for row in rows if row[2] in STATUS[part]]
    if not chosen:
        raise SOURCE.broken(f"{listed} lists no {part} image")
    paths = [row[0] for row in chosen]
    items, labels_N = np.unique([row[1] for row in chosen], return_inverse=True)
    # MEN/Denim and WOMEN/Denim are two of the 23: img/MEN/Denim/id_00000080/01_1_front.jpg
    kinds, category_N = np.unique(["/".join(path.split("/")[1:3]) for path in paths], return_inverse=True)
    return SOURCE.listing(
        part,
        folder,
        listed,
        paths,
        labels_N.astype(np.int64),
        items.tolist(),
        within="" if (folder / "img").is_dir() else "Img",
        details=[[row[1:] for row in chosen]],
        category_N=category_N.astype(np.int64),
        category_names=tuple(kinds.tolist()),
        query_N=np.array([row[2] == "query" for row in chosen]) if part == "test" else None,
    )
