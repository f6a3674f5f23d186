"""NMI and F1 of the models of a check: k-means of their stored points, with a cluster for each test class.

`clustering.json` in a model's folder holds the figures: k-means of 11,316 classes takes half a minute.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dmltune.check.plan import CheckPlan
from dmltune.core.checkpoint import replace_file
from dmltune.core.clustering import cluster, clustering_metrics
from dmltune.data.images import ImageSet
from dmltune.errors import UserError, parse_json
from dmltune.train.measurement import read_measurement
from dmltune.train.run_series import RunSeries

FILE = "clustering.json"
SEED = 0


def measure_clusterings(
    plan: CheckPlan, series: RunSeries, images: ImageSet, log: Callable[[str], None]
) -> None:
    """Write the figures of every trained model that has none."""
    trained = [member.name for member in plan.members() if series.result(member.name) is not None]
    folders = [series.member_folder(name) for name in trained]
    left = [folder for folder in folders if not (folder / FILE).is_file()]
    labels_N = torch.from_numpy(images.labels_N)
    for number, folder in enumerate(left, start=1):
        log(f"k-means with {images.num_classes:,} clusters: model {number} of {len(left)}")
        emb_ND = read_measurement(folder, "emb")[0]["emb"]
        figures = clustering_metrics(labels_N, cluster(emb_ND, len(np.unique(images.labels_N)), SEED))
        replace_file(folder / FILE, json.dumps(figures).encode())


def stored_clustering(folder: Path) -> dict[str, float]:
    """Return nmi and f1 of the model in this folder; nothing when they were not measured."""
    path = folder / FILE
    if not path.is_file():
        return {}
    try:
        figures: dict[str, Any] = parse_json(path.read_text(encoding="utf-8"))
        return {name: float(figures[name]) for name in ("nmi", "f1")}
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(f"{path} is damaged. Remove it; the same command measures it again.") from None
