"""Cars196: 16,185 photos of 196 car models. The first 98 classes train, the last 98 test.

There are two releases: all images in car_ims with cars_annos.mat, or cars_train and cars_test with a devkit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dmltune.data.catalog._files import Listing, Source, dense
from dmltune.data.images import Part

WHOLE = "cars_annos.mat"
META = "devkit/cars_meta.mat"
HALVES = {"cars_train": "devkit/cars_train_annos.mat", "cars_test": "devkit/cars_test_annos_withlabels.mat"}
SOURCE = Source("cars196", ("cars196", "CARS196", "stanford_cars"), ((WHOLE,), (META, *HALVES.values())))
CLASSES: dict[Part, range] = {"train": range(1, 99), "test": range(99, 197)}  # the split every paper uses
PUBLISHED: dict[Part, tuple[int, int]] = {"train": (8054, 98), "test": (8131, 98)}  # images, classes


def load(part: Part, root: Path | None = None) -> Listing:
    """List the images of a part; `root` is the folder with the annotations, or its parent."""
    folder = SOURCE.find(root)
    try:
        if (folder / WHOLE).is_file():
            listed, content = folder / WHOLE, _mat(folder / WHOLE)
            rows = _rows(content, "relative_im_path", "")
        else:  # both halves of the devkit have images of every class
            listed, content, rows = folder / "devkit", _mat(folder / META), []
            for images, file in HALVES.items():
                rows += _rows(_mat(folder / file), "fname", f"{images}/")
        names = [str(name) for name in np.atleast_1d(content["class_names"])]
    except Exception as error:  # scipy raises many types for a damaged file
        raise SOURCE.broken(f"the annotations in {folder} cannot be read ({error!r})") from error
    chosen = [(path, number) for path, number in rows if number in CLASSES[part]]
    if not chosen or max(number for _, number in chosen) > len(names):
        raise SOURCE.broken(f"{listed} lists {len(chosen)} images of the {part} classes, {len(names)} names")
    numbers, _, labels_N = dense(np.array([number for _, number in chosen], dtype=np.int64))
    paths, class_names = [path for path, _ in chosen], [names[number - 1] for number in numbers]
    return SOURCE.listing(part, folder, listed, paths, labels_N, class_names, [labels_N.tolist()])


def _rows(content: dict[str, Any], path: str, prefix: str) -> list[tuple[str, int]]:
    annotations = np.atleast_1d(content["annotations"])
    pairs = zip(annotations[path], annotations["class"], strict=True)
    return [(prefix + str(file), int(number)) for file, number in pairs]


def _mat(file: Path) -> dict[str, Any]:
    from scipy.io import loadmat  # nothing else here needs scipy

    content: dict[str, Any] = loadmat(file, squeeze_me=True)
    return content
