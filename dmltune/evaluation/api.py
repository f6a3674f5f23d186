"""`dmltune.evaluate`: how well an embedder retrieves.

Test classes are read only when asked for, or where nothing was trained; the test ledger has an entry for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from dmltune.check.configurations import digest
from dmltune.core.analysis import distance_histograms, geometry
from dmltune.core.clustering import cluster, clustering_metrics
from dmltune.core.reranking import require_method, reranked_metrics
from dmltune.core.threads import torch_threads
from dmltune.data import catalog
from dmltune.data.feed import evaluation_batches
from dmltune.data.images import ImageSet, Indices
from dmltune.errors import UserError, nearest
from dmltune.evaluation.leads import QueryScores
from dmltune.evaluation.pairs import PairList, as_metrics
from dmltune.experiment import Experiment
from dmltune.ledger import Kind
from dmltune.models import EvaluatedModel, find_model
from dmltune.report.figures import draw_distances
from dmltune.report.summary import warning
from dmltune.resources import Locations
from dmltune.scratch import scratch_folder
from dmltune.store import Store
from dmltune.tracking import Tracker
from dmltune.train.build import training_images, validation_split
from dmltune.train.inference import embed, retrieval, sides
from dmltune.train.ray_session import threads_of, usable_cores
from dmltune.train.test_access import open_test

SPLITS = ("validation", "test")
UNTRAINED = "nothing here learns: no class was trained or chosen on"
SMALL = 64  # up to this side in pixels the raw images are compared too: what any method has to beat

Progress = Callable[[int, int], None]  # images embedded, of how many


def evaluate(
    run: str,
    overrides: Sequence[str] = (),
    *,
    split: Literal["validation", "test"] | None = None,
    store: Store | None = None,
    data_root: Path | None = None,
    kind: Kind = "evaluate",
    clustering: bool = False,
    pairs: Path | None = None,
    rerank: str | None = None,
    progress: Progress = lambda done, total: None,
) -> dict[str, Any]:
    """Return retrieval metrics (fractions) of a search's winner, a training, or one run by its id.

    Under "geometry" is the shape of the embedding (core.analysis). The run gets both, and a picture of the
    distances. A name without a run may be that of a space in which nothing learns: its default split is test,
    because nothing was chosen on these classes. A run's is validation. Every look at test classes adds an
    entry of this `kind` to the test ledger. `overrides` (key=value) change the data, or any key of such a
    space.

    `clustering` adds NMI and F1 of k-means with as many clusters as classes. `pairs` (a list that
    data.pairs reads) adds accuracy and TAR at FAR of whether two images show the same. `rerank`
    (core.reranking.METHODS) adds the metrics of the re-ranked neighbours, and their gain, under "reranked".
    """
    if split is not None and split not in SPLITS:
        raise UserError(f"--split must be validation or test; got '{split}'{nearest(split, SPLITS)}")
    if rerank is not None:
        require_method(rerank)
    locations = Locations(store or Store.at(), data_root)
    tracker = Tracker(locations.store)
    model = find_model(run, tracker, overrides)
    pair_list = None if pairs is None else PairList.read(pairs)  # its mistakes show before anything is opened
    chosen = split or ("test" if model.untrained else "validation")
    return measured(model, chosen, tracker, locations, kind, clustering, pair_list, rerank, progress)


def measured(
    model: EvaluatedModel,
    chosen: str,
    tracker: Tracker,
    locations: Locations,
    kind: Kind = "evaluate",
    clustering: bool = False,
    pair_list: PairList | None = None,
    rerank: str | None = None,
    progress: Progress = lambda done, total: None,
    scores: QueryScores | None = None,
) -> dict[str, Any]:
    """Return what `evaluate` does for a model that is at hand, on the `chosen` split.

    `scores` gets those of every query: of the model by its trial, and of raw pixels.
    """
    with locations.store.owned(), torch_threads(threads_of(usable_cores())):
        if chosen == "test":
            images, indices = _test_images(model, locations, kind)
        else:
            images, indices = _validation_images(model.experiment, locations)
        measurement = _Measurement(model, chosen, images, indices, clustering, pair_list, rerank, scores)
        document, emb_ND, figures = measurement.run(progress)
        if not model.untrained:
            _log(tracker, model, chosen, figures, emb_ND, torch.from_numpy(images.labels_N[indices]))
    return document


@dataclass(frozen=True)
class _Measurement:
    """One model on the images at `indices`."""

    model: EvaluatedModel
    split: str
    images: ImageSet
    indices: Indices
    clustering: bool
    pairs: PairList | None
    rerank: str | None = None
    scores: QueryScores | None = None

    def run(self, progress: Progress) -> tuple[dict[str, Any], Tensor, dict[str, float]]:
        """Return the document, the points, and the figures for the run."""
        images, indices, data = self.images, self.indices, self.model.experiment.data
        emb_ND = embed(self.model.embedder, images, indices, data.size, progress=progress)
        labels_N = torch.from_numpy(images.labels_N[indices])
        metrics, shape = retrieval(emb_ND, images, indices), geometry(emb_ND, labels_N)
        document = self._facts() | metrics
        figures: dict[str, float] = {f"{self.split}_{k}": v for k, v in {**metrics, **shape}.items()}
        if data.size <= SMALL:
            pixels_ND = _raw_pixels(images, indices, data.size)
            raw = retrieval(pixels_ND, images, indices)
            document["raw_pixels"] = {key: raw[key] for key in ("map_at_r", "precision_at_1")}
            if self.scores is not None and "raw_pixels" not in self.scores.precision_Q:
                self.scores.add("raw_pixels", pixels_ND, images, indices)
        if self.scores is not None:
            self.scores.add(self.model.trial, emb_ND, images, indices)
        document["geometry"] = shape
        if self.clustering:
            assignments_N = cluster(emb_ND, len(labels_N.bincount().nonzero()), seed=0)
            document["clustering"] = clustering_metrics(labels_N, assignments_N)
            figures |= {f"{self.split}_{k}": v for k, v in document["clustering"].items()}
        if self.rerank is not None:
            document["reranked"] = after = self._reranked(emb_ND, metrics)
            name = f"{self.split}_{self.rerank.replace('-', '_')}_map_at_r"
            figures[name] = after["map_at_r"]
        if self.pairs is not None:
            document["pairs"] = self.pairs.verified(self.model.embedder, data.size, images.margin)
            figures |= as_metrics(document["pairs"])
        return document, emb_ND, figures

    def _reranked(self, emb_ND: Tensor, metrics: dict[str, float]) -> dict[str, Any]:
        assert self.rerank is not None
        ks = catalog.recall_ks(self.images.name)
        after = reranked_metrics(self.rerank, *sides(emb_ND, self.images, self.indices), ks=ks)
        return {"method": self.rerank, **after, "gain": after["map_at_r"] - metrics["map_at_r"]}

    def _facts(self) -> dict[str, Any]:
        """Return what was measured: the parts of the document that are no figures."""
        model, labels_N = self.model, self.images.labels_N[self.indices]
        facts: dict[str, Any] = {
            "name": model.name,
            "trial": model.trial,
            "run_id": model.run_id,
            "split": self.split,
            "data": model.experiment.data.name,
            "fingerprint": self.images.fingerprint,
            "images": len(self.indices),
            "classes": len(set(labels_N.tolist())),
            "trained_on": model.trained_on,
            "step": model.step,
        }
        if model.untrained:
            facts["note"] = UNTRAINED
        elif loud := warning(model.experiment.objective.protocol):
            facts["warning"] = loud
        if self.images.skipped:
            facts["skipped"] = list(self.images.skipped)
        if self.images.query_N is not None:
            queries = int(self.images.query_N[self.indices].sum())
            facts |= {"queries": queries, "gallery": len(self.indices) - queries}
        return facts


def _log(
    tracker: Tracker,
    model: EvaluatedModel,
    split: str,
    figures: dict[str, float],
    emb_ND: Tensor,
    labels_N: Tensor,
) -> None:
    """Log the figures and a picture of the distances in the run."""
    tracker.log(model.run_id, model.step, {key: float(value) for key, value in figures.items()})
    with scratch_folder() as scratch:
        file = scratch / f"distances_{split}.png"
        title = f"{model.name} · {split} classes of {model.experiment.data.name}"
        tracker.log_file(model.run_id, draw_distances(*distance_histograms(emb_ND, labels_N), title, file))


def _test_images(model: EvaluatedModel, locations: Locations, kind: Kind) -> tuple[ImageSet, Indices]:
    trial = f"trial {model.trial}" if model.trial.isdigit() else model.trial or "untrained"
    opened = open_test(
        model.experiment,
        locations,
        kind=kind,
        study=model.name,
        why=f"{trial} of {model.name} measured on the test classes",
        configurations=[digest(model.experiment)],
        run_ids=[model.run_id] if model.run_id else [],
    )
    return opened.images, range(len(opened.images))


def _validation_images(experiment: Experiment, locations: Locations) -> tuple[ImageSet, Indices]:
    train = training_images(experiment, locations.absolute_root)
    return train, validation_split(experiment, train).validation_N


def _raw_pixels(images: ImageSet, indices: Indices, size: int) -> Tensor:
    batches = evaluation_batches(images, indices, size)
    return torch.cat([batch[:, :1].flatten(1) for batch, _ in batches]).float() / 255
