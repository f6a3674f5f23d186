"""`dmltune.evaluate`: how well an embedder retrieves. Test classes only when asked, or where nothing was
trained; through the door that writes it down (dmltune.check.opening).
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from dmltune.check.configurations import digest
from dmltune.check.ledger import Kind
from dmltune.check.opening import open_test
from dmltune.core import references
from dmltune.core.analysis import distance_histograms, geometry
from dmltune.core.embedder import Embedder
from dmltune.data.feed import evaluation_batches
from dmltune.data.images import ImageSet, Indices
from dmltune.errors import UserError, nearest
from dmltune.experiment import Experiment, load_experiment, places
from dmltune.report.distances import draw_distances
from dmltune.report.summary import warning
from dmltune.store import Store
from dmltune.tracking import Run, Tracker
from dmltune.train.build import build_embedder, learns, training_images, validation_split
from dmltune.train.embedding import embed, read_embedder, retrieval

SPLITS = ("validation", "test")
UNTRAINED = "nothing here learns: no class was trained or chosen on"
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
    kind: Kind = "evaluate",
) -> dict[str, Any]:
    """Retrieval metrics (fractions) of the winner of a search, of a training, or of one run by its id; under
    "geometry" the shape of the embedding (core.analysis). The run gets both, and a picture of the distances.

    Where there is no run of this name it may be that of a space in which nothing learns. Its split is test
    unless the other is asked for: nothing was chosen on these classes. A run's is validation. The test ledger
    has a line of this `kind` for every look at test classes.
    """
    if split is not None and split not in SPLITS:
        raise UserError(f"--split must be validation or test; got '{split}'{nearest(split, SPLITS)}")
    store = store or Store.at()
    tracker = Tracker(store)
    found = tracker.find(run)
    subject = _untrained(run, tracker) if found is None else _trained(run, found, tracker)
    chosen = split or ("test" if subject.untrained else "validation")

    experiment = subject.experiment
    if chosen == "test":
        images, indices = _test(subject, store, data_root, kind)
    else:
        images, indices = _validation(experiment, data_root)
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
    embedder, experiment, about = read_embedder(folder)
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


def _test(subject: _Subject, store: Store, data_root: Path | None, kind: Kind) -> tuple[ImageSet, Indices]:
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
