"""PKU VehicleID: photos of vehicles by surveillance cameras.

About half of the vehicles have a model, which is their category.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from dmltune.data.catalog._files import Listing, Source, dense
from dmltune.data.images import Part
from dmltune.errors import UserError

TRAIN = "train_test_split/train_list.txt"
MODELS = "attribute/model_attr.txt"
SIZES = (800, 1600, 2400)  # vehicles in the small, medium and large test list of the papers
SOURCE = Source("vehicleid", ("VehicleID_V1.0", "VehicleID"), ((TRAIN, MODELS),))
# The readme of the release has the numbers of vehicles only; its images are not exactly the paper's.
PUBLISHED: dict[Part, tuple[int | None, int]] = {"train": (None, 13164), "test": (None, 2400)}


def load(part: Part, root: Path | None = None, vehicles: Literal[800, 1600, 2400] = 2400) -> Listing:
    """List the images of a part; `root` is the folder VehicleID_V1.0, or its parent.

    `vehicles` chooses the test list.
    """
    if vehicles not in SIZES:
        raise UserError(f"vehicleid: vehicles must be 800, 1600 or 2400; got {vehicles!r}")
    folder = SOURCE.find(root)
    listed = folder / (TRAIN if part == "train" else f"train_test_split/test_list_{vehicles}.txt")
    rows = SOURCE.table(listed, columns=2)  # image name without .jpg, vehicle
    classes, _, labels_N = dense(SOURCE.numbers(listed, [row[1] for row in rows]))
    attributes = SOURCE.table(folder / MODELS, columns=2)  # vehicle, model
    pairs = SOURCE.numbers(folder / MODELS, [field for row in attributes for field in row]).reshape(-1, 2)
    model_of = dict(zip(pairs[:, 0].tolist(), pairs[:, 1].tolist(), strict=True))
    model_C = np.array([model_of.get(vehicle, -1) for vehicle in classes.tolist()], dtype=np.int64)
    models = np.unique(model_C[model_C >= 0])
    category_C = np.where(model_C >= 0, np.searchsorted(models, model_C), -1)
    return SOURCE.listing(
        part,
        folder,
        listed,
        [f"{name}.jpg" for name, _ in rows],
        labels_N,
        [f"vehicle {number}" for number in classes],
        details=[labels_N.tolist(), category_C.tolist()],
        within="image",
        category_N=category_C.astype(np.int64)[labels_N],
        category_names=tuple(f"model {number}" for number in models),
    )
