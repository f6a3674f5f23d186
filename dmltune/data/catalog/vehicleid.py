"""PKU VehicleID: photos of vehicles by surveillance cameras.

About half of the vehicles have a model, which is their category. One random image of each test vehicle is the
gallery, as published; the others are the queries.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dmltune.data.catalog._files import Listing, Source, dense
from dmltune.data.images import Ints, Part
from dmltune.errors import UserError, nearest

TRAIN = "train_test_split/train_list.txt"
MODELS = "attribute/model_attr.txt"
VEHICLES = {"small": 800, "medium": 1600, "large": 2400}  # in the test lists of the papers
SMALLER_LISTS = ("small", "medium")
GALLERY_SEED = 0  # of the gallery that is drawn; another one is another test half
SOURCE = Source("vehicleid", ("VehicleID_V1.0", "VehicleID"), ((TRAIN, MODELS),))
# The readme of the release has the numbers of vehicles only; its images are not exactly the paper's.
PUBLISHED: dict[Part, tuple[int | None, int]] = {"train": (None, 13164), "test": (None, 2400)}
RECALL_KS = (1, 5)


def load(
    part: Part, root: Path | None = None, test_list: Literal["small", "medium", "large"] = "large"
) -> Listing:
    """List the images of a part; `root` is the folder VehicleID_V1.0, or its parent.

    `test_list` chooses the test half. A smaller list whose images are all in it is marked in it.
    """
    if test_list not in VEHICLES:
        hint = nearest(test_list, VEHICLES) or "; use small, medium or large"
        raise UserError(f"vehicleid: data.test_list must be a test list; got {test_list!r}{hint}")
    folder = SOURCE.find(root)
    listed = folder / TRAIN if part == "train" else list_file(folder, test_list)
    rows = SOURCE.table(listed, columns=2)  # image name without .jpg, vehicle
    names = [name for name, _ in rows]
    vehicles, _, labels_N = dense(SOURCE.numbers(listed, [row[1] for row in rows]))
    category_N, category_names = _models(folder, vehicles, labels_N)
    details: list[object] = [labels_N.tolist(), category_N.tolist()]
    more: dict[str, Any] = {}
    if part == "test":
        query_N = _queries(names, vehicles, labels_N)
        details.append(query_N.tolist())
        more = {"query_N": query_N, "smaller_lists": _smaller_lists(folder, test_list, names)}
    return SOURCE.listing(
        part,
        folder,
        listed,
        [f"{name}.jpg" for name in names],
        labels_N,
        [f"vehicle {number}" for number in vehicles],
        details=details,
        within="image",
        category_N=category_N,
        category_names=category_names,
        **more,
    )


def list_file(folder: Path, test_list: str) -> Path:
    return folder / f"train_test_split/test_list_{VEHICLES[test_list]}.txt"


def _models(folder: Path, vehicles: Ints, labels_N: Ints) -> tuple[Ints, tuple[str, ...]]:
    """Return the model of each image, −1 for not known, and the names of the models."""
    attributes = SOURCE.table(folder / MODELS, columns=2)  # vehicle, model
    pairs = SOURCE.numbers(folder / MODELS, [field for row in attributes for field in row]).reshape(-1, 2)
    model_of = dict(zip(pairs[:, 0].tolist(), pairs[:, 1].tolist(), strict=True))
    model_C = np.array([model_of.get(vehicle, -1) for vehicle in vehicles.tolist()], dtype=np.int64)
    models = np.unique(model_C[model_C >= 0])
    category_C = np.where(model_C >= 0, np.searchsorted(models, model_C), -1)
    return category_C.astype(np.int64)[labels_N], tuple(f"model {number}" for number in models)


def _queries(names: list[str], vehicles: Ints, labels_N: Ints) -> NDArray[np.bool_]:
    """Return which images are queries: all but one of each vehicle.

    The image of the gallery depends on the vehicle and its images alone, so it is the same in all lists.
    """
    query_N = np.ones(len(names), dtype=bool)
    images_C = np.split(np.argsort(labels_N, kind="stable"), np.cumsum(np.bincount(labels_N))[:-1])
    for vehicle, images in zip(vehicles.tolist(), images_C, strict=True):
        ordered = sorted(images.tolist(), key=lambda image: names[image])
        query_N[ordered[np.random.default_rng((GALLERY_SEED, vehicle)).integers(len(ordered))]] = False
    return query_N


def _smaller_lists(folder: Path, test_list: str, names: list[str]) -> dict[str, NDArray[np.bool_]]:
    """Return which images are in each smaller list that exists and is a part of this one."""
    lists = {}
    for smaller in SMALLER_LISTS:
        file = list_file(folder, smaller)
        if VEHICLES[smaller] < VEHICLES[test_list] and file.is_file():
            own = {name for name, _ in SOURCE.table(file, columns=2)}
            if own <= set(names):
                lists[smaller] = np.array([name in own for name in names])
    return lists
