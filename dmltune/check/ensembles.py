"""The concatenation of the folds' models: one model a fold, their points side by side.

A collection takes one of the repeats of every fold. With F folds and R repeats there are R^F of them, made of
F·R models only, so their figures depend on one another.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from dmltune.data.images import ImageSet
from dmltune.train.inference import retrieval

MOST_QUERIES = 10_000  # up to here every collection is measured, above only the repeats' own


def collections(repeats_F: Sequence[int], everything: bool) -> list[tuple[int, ...]]:
    """One repeat for every fold. `everything`: all that there are; else the first models together, the second
    ones together, and so on."""
    if everything:
        return list(itertools.product(*(range(count) for count in repeats_F)))
    return [(repeat,) * len(repeats_F) for repeat in range(min(repeats_F, default=0))]


def ensemble(
    emb_FR: Sequence[Sequence[Tensor]],
    images: ImageSet,
    level: float,
    tick: Callable[[], None] = lambda: None,
) -> dict[str, dict[str, Any]]:
    """metric → mean, low, high over the collections, how many there were, and of which dimension.

    `emb_FR[f][r]` are the points of the r-th model of fold f. Empty when a fold has no model.
    """
    if not emb_FR or not all(emb_FR):
        return {}
    queries = len(images) if images.query_N is None else int(images.query_N.sum())
    counts = [len(models) for models in emb_FR]
    chosen = collections(counts, everything=queries <= MOST_QUERIES)
    found = []
    for collection in chosen:
        emb_ND = torch.cat([models[r] for models, r in zip(emb_FR, collection, strict=True)], dim=1)
        found.append(retrieval(emb_ND, images, range(len(images))))
        tick()
    dim = sum(models[0].shape[1] for models in emb_FR)
    document = {}
    for metric in found[0]:
        if metric == "queries_without_match":
            continue
        scores = [one[metric] for one in found]
        low, high = interval(chosen, scores, level)
        document[metric] = {
            "mean": statistics.fmean(scores),
            "low": low,
            "high": high,
            "collections": len(scores),
            "dim": dim,
        }
    return document


def interval(
    chosen: Sequence[tuple[int, ...]], scores: Sequence[float], level: float
) -> tuple[float | None, float | None]:
    """Where the mean over new seeds lies, for these folds; None, None when a fold has one model only.

    The mean over all collections is a U-statistic of F samples. Its variance is that of its projection,
    Σ_f s_f²/R_f, with s_f² the variance over r of the mean of the collections that contain model r of fold f;
    degrees of freedom by Satterthwaite. Collections that share no model are simply a sample of R.
    """
    from scipy.stats import t

    folds = range(len(chosen[0]))
    shared = len(chosen) > len({collection[0] for collection in chosen})
    if not shared:
        parts = [(statistics.variance(scores) / len(scores), len(scores) - 1)] if len(scores) > 1 else []
    else:
        parts = []
        for fold in folds:
            by_model: dict[int, list[float]] = {}
            for collection, score in zip(chosen, scores, strict=True):
                by_model.setdefault(collection[fold], []).append(score)
            means = [statistics.fmean(mine) for mine in by_model.values()]
            if len(means) < 2:
                return None, None
            parts.append((statistics.variance(means) / len(means), len(means) - 1))
    if not parts:
        return None, None
    mean, variance = statistics.fmean(scores), sum(part for part, _ in parts)
    if variance == 0:
        return mean, mean
    freedom = variance**2 / sum(part**2 / df for part, df in parts)
    half = float(t.ppf((1 + level) / 2, freedom)) * math.sqrt(variance)
    return max(0.0, mean - half), min(1.0, mean + half)  # they are shares
