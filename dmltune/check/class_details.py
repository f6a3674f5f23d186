"""Details of a check: scores per class, confused classes, histograms of distances.

N test images, Q queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dmltune.check.document import ClassConfusion, ClassScores, DistanceHistogram
from dmltune.check.measured_models import MeasuredModel
from dmltune.core import retrieval
from dmltune.data.images import ImageSet

TOP = 20  # confusions of a configuration

Models = Mapping[str, Sequence[MeasuredModel]]  # by configuration, each with at least one model


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
