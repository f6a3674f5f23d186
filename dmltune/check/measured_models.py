"""The trained models of a check on the test classes: figures, classes, confusions, distances.

N test images, Q queries. All figures are fractions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dmltune.check.clusterings import stored_clustering
from dmltune.check.document import CheckDocument, ClassConfusion, ClassScores, DistanceHistogram, ModelResult
from dmltune.check.plan import CheckPlan, PlannedModel
from dmltune.check.rerankings import stored_reranking
from dmltune.core import retrieval
from dmltune.data.images import ImageSet
from dmltune.report.check_sentences import main_of
from dmltune.train.measurement import read_measurement
from dmltune.train.page_gallery import gallery
from dmltune.train.run_series import RunSeries

TOP = 20  # confusions of a configuration


@dataclass(frozen=True)
class MeasuredModel:
    """A trained member. A precision of NaN marks a query without a match."""

    member: PlannedModel
    result: ModelResult
    geometry: Mapping[str, float]
    distances: Mapping[str, Any]
    precision_Q: Tensor
    nearest_Q: Tensor
    matched_Q: Tensor

    @property
    def pair(self) -> tuple[int, int]:
        """Fold and seed. Models of two configurations are compared when both are equal."""
        return self.member.fold, self.member.seed


Models = Mapping[str, Sequence[MeasuredModel]]  # by configuration


def read_models(plan: CheckPlan, series: RunSeries) -> dict[str, list[MeasuredModel]]:
    """Return configuration → its models, without those that failed."""
    models: dict[str, list[MeasuredModel]] = {each.key: [] for each in plan.configurations}
    for member in plan.members():
        if (trained := series.result(member.name)) is None:
            continue
        folder = series.member_folder(member.name)
        tensors, facts = read_measurement(folder, "average_precision", "nearest", "matched")
        training = {key: trained[key] for key in ("run_id", "step", "validation")}
        test = facts["metrics"] | (stored_clustering(folder) if plan.clustering else {})
        test |= stored_reranking(folder, plan.rerank) if plan.rerank else {}
        result = ModelResult(member.name, member.fold, member.seed, **training, test=test)
        matched_Q = tensors["matched"]
        precision_Q = tensors["average_precision"].double().masked_fill(~matched_Q, torch.nan)
        model = MeasuredModel(
            member, result, facts["geometry"], facts["distances"], precision_Q, tensors["nearest"], matched_Q
        )
        models[member.key].append(model)
    return models


def query_labels(images: ImageSet) -> tuple[Tensor, Tensor]:
    """Return the labels of the queries and those of the gallery."""
    labels_N = torch.from_numpy(images.labels_N)
    if images.query_N is None:
        return labels_N, labels_N
    query_N = torch.from_numpy(images.query_N)
    return labels_N[query_N], labels_N[~query_N]


def class_scores(models: Models, images: ImageSet) -> ClassScores:
    """Return the mean average precision of each class; None for a class without queries."""
    labels_Q, _ = query_labels(images)
    scores = {}
    for key, own in models.items():
        mean_Q = torch.stack([model.precision_Q for model in own]).mean(0)
        labels_C, mean_C = retrieval.per_class(mean_Q, labels_Q)
        by_label = dict(zip(labels_C.tolist(), mean_C.tolist(), strict=True))
        scores[key] = tuple(by_label.get(label) for label in range(images.num_classes))
    counts = np.bincount(images.labels_N, minlength=images.num_classes).tolist()
    return ClassScores(tuple(images.class_names), tuple(counts), scores)


def class_confusions(models: Sequence[MeasuredModel], images: ImageSet) -> tuple[ClassConfusion, ...]:
    """Return the most frequent confusions over the queries of all models."""
    labels_Q, gallery_labels = query_labels(images)
    of = torch.cat([labels_Q[model.matched_Q] for model in models])
    taken_for = torch.cat([gallery_labels[model.nearest_Q[model.matched_Q]] for model in models])
    names = images.class_names
    return tuple(
        ClassConfusion(names[pair.of], names[pair.taken_for], pair.queries, pair.share)
        for pair in retrieval.confusions(of, taken_for, TOP)
    )


def summed_histogram(histograms: Sequence[Mapping[str, Any]]) -> DistanceHistogram:
    """Return the sum of histograms whose edges differ.

    Bins reach to the largest edge of all. A count goes to the bin that has the centre of its old bin.
    """
    bins = len(histograms[0]["edges"]) - 1
    edges = np.linspace(0.0, max(each["edges"][-1] for each in histograms), bins + 1)
    counts = {side: np.zeros(bins, dtype=np.int64) for side in ("positive", "negative")}
    for each in histograms:
        old = np.asarray(each["edges"])
        place = np.searchsorted(edges, (old[:-1] + old[1:]) / 2, side="right") - 1
        for side, total in counts.items():
            np.add.at(total, place.clip(0, bins - 1), np.asarray(each[side], dtype=np.int64))
    return DistanceHistogram(
        tuple(edges.tolist()), tuple(counts["positive"].tolist()), tuple(counts["negative"].tolist())
    )


def gallery_of(document: CheckDocument, series: RunSeries, images: ImageSet) -> dict[str, Any] | None:
    """Return what the first model of the main configuration retrieves on the test classes."""
    main = main_of(document)
    if main is None or not main.models:
        return None
    member = main.models[0].member
    tensors, _ = read_measurement(series.member_folder(member), "emb")
    name = f"The {main.name} ({member})"
    return gallery(tensors["emb"], images, range(len(images)), "test", name)
