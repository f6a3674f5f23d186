"""`dmltune.evaluate`: how well a trained embedder retrieves. The only place that opens test classes, and only
when asked.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from dmltune.core import checkpoint
from dmltune.core.analysis import distance_histograms, geometry
from dmltune.core.embedder import Embedder
from dmltune.core.retrieval import retrieval_metrics
from dmltune.data import catalog
from dmltune.data.feed import evaluation_batches
from dmltune.data.images import ImageSet, Indices
from dmltune.errors import UserError, nearest
from dmltune.experiment import Experiment
from dmltune.report.distances import draw_distances
from dmltune.report.summary import warning
from dmltune.store import Store
from dmltune.tracking import Run, Tracker
from dmltune.train.build import build_embedder, training_images, validation_split

SPLITS = ("validation", "test")
SMALL = 64  # up to this side in pixels the raw image is compared too: what any method has to beat


def evaluate(
    run: str,
    *,
    split: Literal["validation", "test"] = "validation",
    store: Store | None = None,
    data_root: Path | None = None,
) -> dict[str, Any]:
    """Retrieval metrics (fractions) of the winner of a search, of a training, or of one run by its id; under
    "geometry" the shape of the embedding (core.analysis). The run gets both, and a picture of the distances.
    """
    if split not in SPLITS:
        raise UserError(f"--split must be validation or test; got '{split}'{nearest(split, SPLITS)}")
    tracker = Tracker(store or Store.at())
    found = _run_with_model(tracker, run)
    folder = tracker.model_folder(found.info.run_id)
    if folder is None:
        state = found.data.tags.get("dmltune.model", "it did not finish")
        raise UserError(f"run {found.info.run_id} has no model ({state}). Evaluate a run that has one.")
    state_dict, about = checkpoint.load_model(folder)
    experiment = Experiment.from_dict(about["experiment"])
    embedder = build_embedder(experiment.with_values({"backbone.weights": "none"}), about["normalise"])
    embedder.load_state_dict(state_dict)

    images, indices = _images(experiment, split, data_root)
    emb_ND = _embed(embedder, images, indices, experiment.data.size)
    labels_N = torch.from_numpy(images.labels_N[indices])
    metrics, shape = _metrics(emb_ND, images, indices), geometry(emb_ND, labels_N)
    document: dict[str, Any] = {
        "name": found.data.tags.get("dmltune.search", run),
        "trial": found.data.tags.get("dmltune.number", ""),
        "run_id": found.info.run_id,
        "split": split,
        "data": experiment.data.name,
        "fingerprint": images.fingerprint,
        "images": len(indices),
        "classes": len(set(images.labels_N[indices].tolist())),
        "trained_on": about["data"],
        "step": about["step"],
        **metrics,
    }
    if seen := warning(experiment.objective.protocol):
        document["warning"] = seen
    if images.query_N is not None:
        queries = int(images.query_N[indices].sum())
        document |= {"queries": queries, "gallery": len(indices) - queries}
    if experiment.data.size <= SMALL:
        raw = _metrics(_raw_pixels(images, indices, experiment.data.size), images, indices)
        document["raw_pixels"] = {key: raw[key] for key in ("map_at_r", "precision_at_1")}
    document["geometry"] = shape
    numbers = {f"{split}_{k}": float(v) for k, v in {**metrics, **shape}.items()}
    tracker.log(found.info.run_id, int(about["step"]), numbers)
    with tempfile.TemporaryDirectory(prefix="dmltune-") as scratch:
        file = Path(scratch) / f"distances_{split}.png"
        title = f"{document['name']} · {split} classes of {experiment.data.name}"
        tracker.log_file(
            found.info.run_id, draw_distances(*distance_histograms(emb_ND, labels_N), title, file)
        )
    return document


def _run_with_model(tracker: Tracker, name_or_run: str) -> Run:
    found = tracker.find(name_or_run)
    if found is None:
        known = tracker.names()
        hint = nearest(name_or_run, known) or (f"; there are {', '.join(known)}" if known else "")
        raise UserError(f"no search, training or run '{name_or_run}' in this store{hint}")
    winner = found.data.tags.get("dmltune.winner")
    if winner:
        return tracker.client.get_run(winner)
    if found.data.tags.get("dmltune.number") == "parent" and "dmltune.model" not in found.data.tags:
        raise UserError(
            f"'{name_or_run}' has no complete trial yet. Continue it with the same command, then evaluate."
        )
    return found


def _images(experiment: Experiment, split: str, data_root: Path | None) -> tuple[ImageSet, Indices]:
    if split == "test":
        chosen = experiment.data
        test = catalog.load(chosen.name, "test", data_root, path=chosen.path).first_classes(chosen.classes)
        return test, range(len(test))
    train = training_images(experiment, str(data_root) if data_root else None)
    return train, validation_split(experiment, train).validation_N


def _metrics(emb_ND: Tensor, images: ImageSet, indices: Indices) -> dict[str, float]:
    """All against all, or the queries against the gallery where a data set has both."""
    labels_N = torch.from_numpy(images.labels_N[indices])
    if images.query_N is None:
        return retrieval_metrics(emb_ND, labels_N)
    query_N = torch.from_numpy(images.query_N[indices])
    return retrieval_metrics(emb_ND[query_N], labels_N[query_N], emb_ND[~query_N], labels_N[~query_N])


@torch.inference_mode()
def _embed(embedder: Embedder, images: ImageSet, indices: Indices, size: int) -> Tensor:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    embedder.to(device).eval()
    batches = evaluation_batches(images, indices, size)
    return torch.cat([embedder(batch.to(device)).cpu() for batch, _ in batches])


def _raw_pixels(images: ImageSet, indices: Indices, size: int) -> Tensor:
    batches = evaluation_batches(images, indices, size)
    return torch.cat([batch[:, :1].flatten(1) for batch, _ in batches]).float() / 255
