"""Ensembles: one model of every fold, their embeddings concatenated.

A collection takes one of the repeats of every fold. F folds with R repeats give R^F collections of F·R
models, so their figures depend on one another.
"""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from dmltune.check.document import EnsembleResult
from dmltune.check.statistics import half_width
from dmltune.core.retrieval import retrieval_metrics
from dmltune.data.images import ImageSet
from dmltune.train.inference import sides

ALL = 81  # collections of the text: 3 repeats of 4 folds; so many are always measured
MOST_QUERIES = 10_000  # more collections are measured up to here, above only the repeats' own
KS = (1, 2, 4, 8)
LOGGED_SECONDS = 60.0


def collections(repeats_F: Sequence[int], queries: int) -> list[tuple[int, ...]]:
    """Return one repeat per fold for every collection, or repeat 0 of all, repeat 1 of all, …"""
    if queries <= MOST_QUERIES or math.prod(repeats_F) <= ALL:
        return list(itertools.product(*(range(count) for count in repeats_F)))
    return [(repeat,) * len(repeats_F) for repeat in range(min(repeats_F, default=0))]


def ensemble(
    emb_FR: Sequence[Sequence[Tensor]],
    images: ImageSet,
    level: float,
    log: Callable[[str], None] = lambda text: None,
) -> dict[str, EnsembleResult]:
    """Return metric → its mean over the collections, with an interval and a standard deviation.

    `emb_FR[f][r]` are the points of the r-th model of fold f. Empty when a fold has no model. Memory: the
    points of one collection at a time; `log` gets the time that is left when it is long: a collection of
    60,502 × 512 (Stanford Online Products) took 75 s of processor time, so 81 take 100 minutes on a core.
    """
    if not emb_FR or not all(emb_FR):
        return {}
    queries = len(images) if images.query_N is None else int(images.query_N.sum())
    chosen = collections([len(models) for models in emb_FR], queries)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    figures, began = [], time.monotonic()
    for collection in chosen:
        parts = [models[r] for models, r in zip(emb_FR, collection, strict=True)]
        emb_ND = torch.cat([part.to(device) for part in parts], dim=1)
        figures.append(retrieval_metrics(*sides(emb_ND, images, range(len(images))), ks=KS))
        left = (time.monotonic() - began) * (len(chosen) / len(figures) - 1)
        if left > LOGGED_SECONDS and (len(figures) - 1) % 20 == 0:
            log(f"collection {len(figures)} of {len(chosen)}: about {left / 60:.0f} min left")
    dim = sum(models[0].shape[1] for models in emb_FR)
    results = {}
    for metric in figures[0]:
        scores = [each[metric] for each in figures]
        low, high = interval(chosen, scores, level)
        sd = statistics.stdev(scores) if len(scores) > 1 else None
        results[metric] = EnsembleResult(statistics.fmean(scores), low, high, len(scores), dim, sd)
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
