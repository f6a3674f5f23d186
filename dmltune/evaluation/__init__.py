"""`dmltune.evaluate`: how well an embedder retrieves. Test classes only when asked, or where nothing was
trained; through the door that writes it down (dmltune.check.opening).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from dmltune.check.configurations import digest
from dmltune.core.analysis import distance_histograms, geometry
from dmltune.core.clustering import cluster, clustering_metrics
from dmltune.data.feed import evaluation_batches
from dmltune.data.images import ImageSet, Indices
from dmltune.errors import UserError, nearest
from dmltune.evaluation.pairs import PairList, logged
from dmltune.experiment import Experiment
from dmltune.ledger import Kind
from dmltune.models import EvaluatedModel, trained_subject, untrained_subject
from dmltune.report.distances import draw_distances
from dmltune.report.summary import warning
from dmltune.store import Store
from dmltune.tracking import Tracker
from dmltune.train.build import training_images, validation_split
from dmltune.train.inference import embed, retrieval
from dmltune.train.ray_session import threads_of, usable_cores
from dmltune.train.test_access import open_test

SPLITS = ("validation", "test")
UNTRAINED = "nothing here learns: no class was trained or chosen on"
SMALL = 64  # up to this side in pixels the raw image is compared too: what any method has to beat


def evaluate(
    run: str,
    *,
    split: Literal["validation", "test"] | None = None,
    store: Store | None = None,
    data_root: Path | None = None,
    kind: Kind = "evaluate",
    clustering: bool = False,
    pairs: Path | None = None,
) -> dict[str, Any]:
    """Retrieval metrics (fractions) of the winner of a search, of a training, or of one run by its id; under
    "geometry" the shape of the embedding (core.analysis). The run gets both, and a picture of the distances.

    Where there is no run of this name it may be that of a space in which nothing learns. Its split is test
    unless the other is asked for: nothing was chosen on these classes. A run's is validation. The test ledger
    has a line of this `kind` for every look at test classes.

    `clustering` adds NMI and F1 of k-means with as many clusters as classes, `pairs` (a list that
    data.pairs reads) whether two images show the same: accuracy and TAR at FAR.
    """
    if split is not None and split not in SPLITS:
        raise UserError(f"--split must be validation or test; got '{split}'{nearest(split, SPLITS)}")
    store = store or Store.at()
    tracker = Tracker(store)
    found = tracker.find(run)
    subject = untrained_subject(run, tracker) if found is None else trained_subject(run, found, tracker)
    listed = None if pairs is None else PairList.read(pairs)  # mistakes in it before test classes are opened
    chosen = split or ("test" if subject.untrained else "validation")
    with _own_threads():
        if chosen == "test":
            images, indices = _test(subject, store, data_root, kind)
        else:
            images, indices = _validation(subject.experiment, data_root)
        return _measured(subject, tracker, chosen, images, indices, clustering, listed)


def _measured(
    subject: EvaluatedModel,
    tracker: Tracker,
    chosen: str,
    images: ImageSet,
    indices: Indices,
    clustering: bool,
    pairs: PairList | None,
) -> dict[str, Any]:
    experiment = subject.experiment
    emb_ND = embed(subject.embedder, images, indices, experiment.data.size)
    labels_N = torch.from_numpy(images.labels_N[indices])
    metrics, shape = retrieval(emb_ND, images, indices), geometry(emb_ND, labels_N)
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
        raw = retrieval(_raw_pixels(images, indices, experiment.data.size), images, indices)
        document["raw_pixels"] = {key: raw[key] for key in ("map_at_r", "precision_at_1")}
    document["geometry"] = shape
    figures = {**metrics, **shape}
    if clustering:
        document["clustering"] = found = _clustered(emb_ND, labels_N)
        figures |= found
    if pairs is not None:
        document["pairs"] = pairs.verified(subject.embedder, experiment.data.size, images.margin)
    if not subject.untrained:
        _keep(tracker, subject, chosen, figures, emb_ND, labels_N)
        if pairs is not None:
            tracker.log(subject.run_id, subject.step, logged(document["pairs"]))
    return document


def _clustered(emb_ND: Tensor, labels_N: Tensor) -> dict[str, float]:
    """NMI and F1 of k-means with k = the number of classes, always from the same start."""
    assignments_N = cluster(emb_ND, len(labels_N.bincount().nonzero()), seed=0)
    return clustering_metrics(labels_N, assignments_N)


@contextmanager
def _own_threads() -> Iterator[None]:
    """As many threads as training takes: those of OMP_NUM_THREADS, or of the cores this process may use."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads_of(usable_cores()))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _keep(
    tracker: Tracker,
    subject: EvaluatedModel,
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


def _test(
    subject: EvaluatedModel, store: Store, data_root: Path | None, kind: Kind
) -> tuple[ImageSet, Indices]:
    which = f"trial {subject.trial}" if subject.trial.isdigit() else subject.trial or "untrained"
    opened = open_test(
        subject.experiment,
        data_root,
        store,
        kind=kind,
        study=subject.name,
        why=f"{which} of {subject.name} measured on the test classes",
        configurations=[digest(subject.experiment)],
        run_ids=[subject.run_id] if subject.run_id else [],
    )
    return opened.images, range(len(opened.images))


def _validation(experiment: Experiment, data_root: Path | None) -> tuple[ImageSet, Indices]:
    train = training_images(experiment, str(data_root) if data_root else None)
    return train, validation_split(experiment, train).validation_N


def _raw_pixels(images: ImageSet, indices: Indices, size: int) -> Tensor:
    batches = evaluation_batches(images, indices, size)
    return torch.cat([batch[:, :1].flatten(1) for batch, _ in batches]).float() / 255
