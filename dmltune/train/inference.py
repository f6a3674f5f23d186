"""A trained embedder applied to a set of images, and how well its points retrieve."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dmltune.core import checkpoint
from dmltune.core.checkpoint import ModelDescription
from dmltune.core.embedder import Embedder
from dmltune.core.retrieval import retrieval_metrics
from dmltune.data import catalog
from dmltune.data.feed import evaluation_batches
from dmltune.data.images import PHOTO_MARGIN, ImageSet, Indices
from dmltune.experiment import Experiment
from dmltune.train.build import build_embedder

Sides = tuple[Tensor, Tensor, Tensor | None, Tensor | None]
# Pixels of a batch on the CPU. Larger maps are fresh pages from the kernel each time, at half the speed.
CPU_PIXELS = 8 * 160**2
_PHOTOS = ("cars196", "cub", "inshop", "own", "sop", "vehicleid")  # with a crop margin, in models of format 1


def read_embedder(folder: Path) -> tuple[Embedder, Experiment, ModelDescription]:
    """Return the embedder that `save_model` wrote, its experiment, and the whole description.

    `folder` may be the file of the model itself.
    """
    path = checkpoint.model_file(folder)
    state, about = checkpoint.load_model(folder, _settings_of_format_1)
    with checkpoint.reading(path):
        experiment = Experiment.from_dict(about.experiment)
        _require_sizes(experiment, about, state)
        embedder = _empty_embedder(experiment, about.normalise)
        checkpoint.load_weights(embedder, state, path)
    embedder.standardise_with(about.mean, about.std)
    return embedder, experiment, about


def _require_sizes(experiment: Experiment, about: ModelDescription, state: dict[str, Tensor]) -> None:
    """Raise a ValueError when the description wants a network far larger than the weights beside it."""
    largest = max((side for tensor in state.values() for side in tensor.shape), default=0)
    sizes = {"embedding.dim": experiment.embedding.dim or 0, "embedding_size": about.embedding_size}
    sizes |= {f"pooling.{key}": value for key, value in experiment.pooling.parameters.items()}
    for key, value in sizes.items():
        if isinstance(value, int) and value > max(largest, 4096):
            raise ValueError(f"{key} is {value}, but the largest tensor has a side of {largest}")
    if experiment.embedding.dim not in (None, about.embedding_size):
        raise ValueError(f"embedding_size is {about.embedding_size}, not {experiment.embedding.dim}")


def inference_settings(experiment: Experiment, embedder: Embedder) -> dict[str, Any]:
    """Return what a stored model says of its images and points, the crop margin apart."""
    return {
        "image_size": experiment.data.size,
        "exif_rotation": experiment.data.name == "own",
        "mean": tuple(embedder.mean.flatten().tolist()),
        "std": tuple(embedder.std.flatten().tolist()),
        "embedding_size": embedder.dim,
    }


def _settings_of_format_1(about: dict[str, Any]) -> dict[str, Any]:
    experiment = Experiment.from_dict(about["experiment"])
    margin = experiment.data.margin or (PHOTO_MARGIN if experiment.data.name in _PHOTOS else 1.0)
    embedder = _empty_embedder(experiment, about["normalise"])
    return {"crop_margin": margin, **inference_settings(experiment, embedder)}


def _empty_embedder(experiment: Experiment, normalise: str) -> Embedder:
    return build_embedder(experiment.with_values({"backbone.weights": "none"}), normalise)


@torch.inference_mode()
def embed(
    embedder: Embedder,
    images: ImageSet,
    indices: Indices,
    size: int,
    device: torch.device | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Tensor:
    """Return the points of the images at `indices`, (N, D) on the CPU; a GPU computes them where there is
    one."""
    device = device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
    embedder.to(device).eval()
    few = None if device.type == "cuda" else max(1, CPU_PIXELS // size**2)
    batches = evaluation_batches(images, indices, size, batch_size=few)
    points: list[Tensor] = []
    done = 0
    for batch, _ in batches:
        points.append(embedder(batch.to(device)).cpu())
        done += len(batch)
        progress(done, len(indices))
    return torch.cat(points)


def retrieval(
    emb_ND: Tensor, images: ImageSet, indices: Indices, ks: Sequence[int] | None = None
) -> dict[str, float]:
    """Return the metrics of all against all, or of queries against gallery where the data have both.

    Without `ks` recall is at those of the data set. Metrics of a smaller test list begin with its name.
    """
    ks = catalog.recall_ks(images.name) if ks is None else ks
    return retrieval_metrics(*sides(emb_ND, images, indices), ks=ks) | of_smaller_lists(
        emb_ND, images, indices, ks
    )


def sides(emb_ND: Tensor, images: ImageSet, indices: Indices) -> Sides:
    """Return points and labels of the queries, then those of the gallery, or None where all are both."""
    labels_N = torch.from_numpy(images.labels_N[indices]).to(emb_ND.device)
    if images.query_N is None:
        return emb_ND, labels_N, None, None
    query_N = torch.from_numpy(images.query_N[indices]).to(emb_ND.device)
    return emb_ND[query_N], labels_N[query_N], emb_ND[~query_N], labels_N[~query_N]


def of_smaller_lists(
    emb_ND: Tensor, images: ImageSet, indices: Indices, ks: Sequence[int]
) -> dict[str, float]:
    """Return MAP@R and recall within each smaller test list: `small_recall_at_1`."""
    metrics: dict[str, float] = {}
    for name, in_list_N in images.smaller_lists.items():
        places = np.flatnonzero(in_list_N[indices])
        chosen = retrieval_metrics(*sides(emb_ND[places], images, np.asarray(indices)[places]), ks=ks)
        shown = ("map_at_r", *(f"recall_at_{k}" for k in ks))
        metrics |= {f"{name}_{metric}": chosen[metric] for metric in shown}
    return metrics
