"""A trained embedder, read again and applied to a set of images; how well its points retrieve.

The test classes are read here alone (protocol `conventional` apart), and only by somebody who names the
opening in the ledger. `search` and `train` have none to name: an order of theirs carries no opening.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dmltune.core import checkpoint
from dmltune.core.embedder import Embedder
from dmltune.core.retrieval import retrieval_metrics
from dmltune.data import catalog
from dmltune.data.feed import evaluation_batches
from dmltune.data.images import ImageSet, Indices
from dmltune.errors import UserError
from dmltune.experiment import Experiment
from dmltune.train.build import build_embedder, framed

CPU_PIXELS = (
    8 * 160**2
)  # of a batch: larger maps are fresh pages from the kernel each time, at half the speed


def unseen_images(experiment: Experiment, data_root: str | None, opening: str) -> ImageSet:
    """The test half. `opening` is the id of a line in the test ledger; dmltune.check.opening writes it."""
    chosen = experiment.data
    if not opening:
        raise UserError(
            f"the test classes of {chosen.name} are closed to search and train; "
            "dmltune check opens them, and so does dmltune evaluate --split test"
        )
    return framed(_test_half(chosen.name, chosen.classes, data_root, chosen.path), chosen.margin)


@lru_cache(maxsize=2)  # a warm worker reads a data set once
def _test_half(name: str, classes: int | None, data_root: str | None, path: str | None) -> ImageSet:
    half = catalog.load(name, "test", Path(data_root) if data_root else None, path=path)
    return half.first_classes(classes)


def read_embedder(folder: Path) -> tuple[Embedder, Experiment, dict[str, Any]]:
    """The embedder that `save_model` wrote, the experiment it was trained by, and the whole description."""
    state_dict, about = checkpoint.load_model(folder)
    experiment = Experiment.from_dict(about["experiment"])
    embedder = build_embedder(experiment.with_values({"backbone.weights": "none"}), about["normalise"])
    embedder.load_state_dict(state_dict)
    return embedder, experiment, about


@torch.inference_mode()
def embed(
    embedder: Embedder,
    images: ImageSet,
    indices: Indices,
    size: int,
    device: torch.device | None = None,
) -> Tensor:
    """The points of the images at `indices`, (N, D) on the CPU; on a GPU where there is one."""
    device = device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
    embedder.to(device).eval()
    few = None if device.type == "cuda" else max(1, CPU_PIXELS // size**2)
    batches = evaluation_batches(images, indices, size, batch_size=few)
    return torch.cat([embedder(batch.to(device)).cpu() for batch, _ in batches])


def retrieval(emb_ND: Tensor, images: ImageSet, indices: Indices) -> dict[str, float]:
    """All against all, or the queries against the gallery where a data set has both."""
    labels_N = torch.from_numpy(images.labels_N[indices])
    if images.query_N is None:
        return retrieval_metrics(emb_ND, labels_N)
    query_N = torch.from_numpy(images.query_N[indices])
    return retrieval_metrics(emb_ND[query_N], labels_N[query_N], emb_ND[~query_N], labels_N[~query_N])
