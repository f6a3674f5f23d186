"""`dmltune.evaluate`: how well an embedder retrieves. The only place that opens test classes, and only when
asked, or where nothing was trained.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from dmltune.core import checkpoint, references
from dmltune.core.analysis import distance_histograms, geometry
from dmltune.core.embedder import Embedder
from dmltune.core.retrieval import retrieval_metrics
from dmltune.data import catalog
from dmltune.data.feed import evaluation_batches
from dmltune.data.images import ImageSet, Indices
from dmltune.errors import UserError, nearest
from dmltune.experiment import Experiment, load_experiment, places
from dmltune.report.distances import draw_distances
from dmltune.report.summary import warning
from dmltune.store import Store
from dmltune.tracking import Run, Tracker
from dmltune.train.build import build_embedder, framed, learns, training_images, validation_split

SPLITS = ("validation", "test")
UNTRAINED = "nothing here learns: no class was trained or chosen on"
CPU_PIXELS = (
    8 * 160**2
)  # of a batch: larger maps are fresh pages from the kernel each time, at half the speed
SMALL = 64  # up to this side in pixels the raw image is compared too: what any method has to beat


@dataclass(frozen=True)
class _Subject:
    """What is evaluated: the embedder of a run, or that of a space in which nothing learns."""

    name: str
    experiment: Experiment
    embedder: Embedder
    step: int = 0
    trained_on: str = ""
    trial: str = ""
    run_id: str = ""

    @property
    def untrained(self) -> bool:
        return not self.run_id


def evaluate(
    run: str,
    *,
    split: Literal["validation", "test"] | None = None,
    store: Store | None = None,
    data_root: Path | None = None,
) -> dict[str, Any]:
    """Retrieval metrics (fractions) of the winner of a search, of a training, or of one run by its id; under
    "geometry" the shape of the embedding (core.analysis). The run gets both, and a picture of the distances.

    Where there is no run of this name it may be that of a space in which nothing learns. Its split is test
    unless the other is asked for: nothing was chosen on these classes. A run's is validation.
    """
    if split is not None and split not in SPLITS:
        raise UserError(f"--split must be validation or test; got '{split}'{nearest(split, SPLITS)}")
    tracker = Tracker(store or Store.at())
    found = tracker.find(run)
    subject = _untrained(run, tracker) if found is None else _trained(run, found, tracker)
    chosen = split or ("test" if subject.untrained else "validation")

    experiment = subject.experiment
    images, indices = _images(experiment, chosen, data_root)
    emb_ND = _embed(subject.embedder, images, indices, experiment.data.size)
    labels_N = torch.from_numpy(images.labels_N[indices])
    metrics, shape = _metrics(emb_ND, images, indices), geometry(emb_ND, labels_N)
    document: dict[str, Any] = {
        "name": subject.name,
        "trial": subject.trial,
        "run_id": subject.run_id,
        "split": chosen,
        "data": experiment.data.name,
        "fingerprint": images.fingerprint,
        "images": len(indices),
        "classes": len(set(images.labels_N[indices].tolist())),
        "trained_on": subject.trained_on,
        "step": subject.step,
        **metrics,
    }
    if subject.untrained:
        document["note"] = UNTRAINED
    elif seen := warning(experiment.objective.protocol):
        document["warning"] = seen
    if images.query_N is not None:
        queries = int(images.query_N[indices].sum())
        document |= {"queries": queries, "gallery": len(indices) - queries}
    if experiment.data.size <= SMALL:
        raw = _metrics(_raw_pixels(images, indices, experiment.data.size), images, indices)
        document["raw_pixels"] = {key: raw[key] for key in ("map_at_r", "precision_at_1")}
    document["geometry"] = shape
    if not subject.untrained:
        _keep(tracker, subject, chosen, {**metrics, **shape}, emb_ND, labels_N)
    return document


def _keep(
    tracker: Tracker,
    subject: _Subject,
    split: str,
    figures: dict[str, float],
    emb_ND: Tensor,
    labels_N: Tensor,
) -> None:
    """Into the run: the figures, and a picture of the distances."""
    tracker.log(subject.run_id, subject.step, {f"{split}_{k}": float(v) for k, v in figures.items()})
    with tempfile.TemporaryDirectory(prefix="dmltune-") as scratch:
        file = Path(scratch) / f"distances_{split}.png"
        title = f"{subject.name} · {split} classes of {subject.experiment.data.name}"
        tracker.log_file(subject.run_id, draw_distances(*distance_histograms(emb_ND, labels_N), title, file))


def _trained(name: str, found: Run, tracker: Tracker) -> _Subject:
    run = _run_with_model(name, found, tracker)
    run_id, tags = run.info.run_id, run.data.tags
    folder = tracker.model_folder(run_id)
    if folder is None:
        state = tags.get("dmltune.model", "it did not finish")
        raise UserError(f"run {run_id} has no model ({state}). Evaluate a run that has one.")
    state_dict, about = checkpoint.load_model(folder)
    experiment = Experiment.from_dict(about["experiment"])
    embedder = build_embedder(experiment.with_values({"backbone.weights": "none"}), about["normalise"])
    embedder.load_state_dict(state_dict)
    return _Subject(
        name=tags.get("dmltune.search", name),
        experiment=experiment,
        embedder=embedder,
        step=int(about["step"]),
        trained_on=about["data"],
        trial=tags.get("dmltune.number", ""),
        run_id=run_id,
    )


def _run_with_model(name: str, found: Run, tracker: Tracker) -> Run:
    winner = found.data.tags.get("dmltune.winner")
    if winner:
        return tracker.client.get_run(winner)
    if found.data.tags.get("dmltune.number") == "parent" and "dmltune.model" not in found.data.tags:
        raise UserError(
            f"'{name}' has no complete trial yet. Continue it with the same command, then evaluate."
        )
    return found


def _untrained(name: str, tracker: Tracker) -> _Subject:
    """The embedder of a space in which nothing learns, with the weights it comes with."""
    spaces = places.named_files(places.SPACES)
    if name not in spaces and not places.is_path(name):
        known = tracker.names()
        hint = nearest(name, [*known, *spaces]) or (f"; there are {', '.join(known)}" if known else "")
        raise UserError(f"no search, training or run '{name}' in this store{hint}")
    experiment = load_experiment(name).reference_experiment()
    torch.manual_seed(experiment.seed)
    refs = references.load(experiment.references.name, 2, 2, **experiment.references.parameters)
    embedder = build_embedder(experiment, refs.normalise)
    if learns(embedder):
        raise UserError(
            f"no search, training or run '{name}' in this store, and in the space of that name something"
            f" has to learn first; dmltune train {name}"
        )
    return _Subject(Path(name).stem if places.is_path(name) else name, experiment, embedder)


def _images(experiment: Experiment, split: str, data_root: Path | None) -> tuple[ImageSet, Indices]:
    if split == "test":
        chosen = experiment.data
        test = catalog.load(chosen.name, "test", data_root, path=chosen.path).first_classes(chosen.classes)
        return framed(test, chosen.margin), range(len(test))
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
    few = None if device.type == "cuda" else max(1, CPU_PIXELS // size**2)
    batches = evaluation_batches(images, indices, size, batch_size=few)
    return torch.cat([embedder(batch.to(device)).cpu() for batch, _ in batches])


def _raw_pixels(images: ImageSet, indices: Indices, size: int) -> Tensor:
    batches = evaluation_batches(images, indices, size)
    return torch.cat([batch[:, :1].flatten(1) for batch, _ in batches]).float() / 255
