"""Ensembles: one model of every fold, their embeddings concatenated.

A collection takes one of the repeats of every fold. F folds with R repeats give R^F collections of F·R
models, so their figures depend on one another.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence

import torch
from torch import Tensor

from dmltune.check.document import EnsembleResult
from dmltune.check.statistics import half_width
from dmltune.data.images import ImageSet
from dmltune.train.inference import retrieval

MOST_QUERIES = 10_000  # up to here every collection is measured, above only the repeats' own


def collections(repeats_F: Sequence[int], every: bool) -> list[tuple[int, ...]]:
    """Return one repeat per fold: `every` collection, or repeat 0 of all, repeat 1 of all, …"""
    if every:
        return list(itertools.product(*(range(count) for count in repeats_F)))
    return [(repeat,) * len(repeats_F) for repeat in range(min(repeats_F, default=0))]


def ensemble(emb_FR: Sequence[Sequence[Tensor]], images: ImageSet, level: float) -> dict[str, EnsembleResult]:
    """Return metric → its mean over the collections, with an interval.

    `emb_FR[f][r]` are the points of the r-th model of fold f. Empty when a fold has no model.
    """
    if not emb_FR or not all(emb_FR):
        return {}
    queries = len(images) if images.query_N is None else int(images.query_N.sum())
    chosen = collections([len(models) for models in emb_FR], every=queries <= MOST_QUERIES)
    figures = []
    for collection in chosen:
        emb_ND = torch.cat([models[r] for models, r in zip(emb_FR, collection, strict=True)], dim=1)
        figures.append(retrieval(emb_ND, images, range(len(images))))
    dim = sum(models[0].shape[1] for models in emb_FR)
    results = {}
    for metric in figures[0]:
        scores = [each[metric] for each in figures]
        low, high = interval(chosen, scores, level)
        results[metric] = EnsembleResult(statistics.fmean(scores), low, high, len(scores), dim)
    return results


def interval(
    chosen: Sequence[tuple[int, ...]], scores: Sequence[float], level: float
) -> tuple[float | None, float | None]:
    """Return the interval of the mean over new seeds; None when a fold has one model.

    The mean over all collections is a U-statistic of F samples. Its variance is that of its projection,
    Σ_f s_f²/R_f, with s_f² the variance over r of the mean of the collections that contain model r of fold f;
    degrees of freedom by Satterthwaite. Collections that share no model are a sample of R.
    """
    samples = [list(scores)]
    if len(chosen) > len({collection[0] for collection in chosen}):
        samples = []
        for repeat_K in zip(*chosen, strict=True):  # of each collection in one fold
            by_model: dict[int, list[float]] = {}
            for repeat, score in zip(repeat_K, scores, strict=True):
                by_model.setdefault(repeat, []).append(score)
            samples.append([statistics.fmean(own) for own in by_model.values()])
    if min(map(len, samples)) < 2:
        return None, None
    parts = [(statistics.variance(sample) / len(sample), len(sample) - 1) for sample in samples]
    mean, variance = statistics.fmean(scores), sum(part for part, _ in parts)
    if variance == 0:
        return mean, mean
    half = half_width(variance, variance**2 / sum(part**2 / df for part, df in parts), level)
    return max(0.0, mean - half), min(1.0, mean + half)  # metrics are shares
