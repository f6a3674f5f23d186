"""Are two faces the same? The rate of right acceptances at a rate of wrong ones, and the accuracy of LFW.

N pairs with a score each, the higher the more alike. A threshold t accepts the pairs with score ≥ t.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def tar_at_far(scores: Any, same: Any, fars: Sequence[float]) -> list[float]:
    """For every far: the largest share of the same pairs accepted by a threshold that accepts at most the
    share `far` of the other pairs.

    Exact. Equal scores are accepted or refused together; a FAR of 0 refuses every other pair. O(N): the
    thresholds are found by selection in a copy of the other pairs' scores, not by sorting.
    """
    score_N, same_N = _pairs(scores, same)
    other = score_N[~same_N]
    own = score_N[same_N]
    allowed = [_allowed(far, len(other)) for far in fars]
    # The best threshold lies just above the score of the first other pair that may not be accepted.
    places = sorted({len(other) - 1 - count for count in allowed if count < len(other)})
    if places:
        other.partition(places)
    return [
        float(np.count_nonzero(own > other[-1 - count]) / len(own)) if count < len(other) else 1.0
        for count in allowed
    ]


def accuracy(scores: Any, same: Any, folds: int = 10) -> tuple[float, float]:
    """The mean of the folds' accuracies, and their standard deviation (with folds − 1; the standard error
    that LFW's tables give is this / √folds).

    The folds are contiguous, as in the official lists (sizes differ by one at most). The threshold of a fold
    is the best on all the others, half-way between two scores there; of equally good ones the lowest.
    """
    score_N, same_N = _pairs(scores, same)
    score_N = score_N.astype(np.float64)
    if not 2 <= folds <= len(score_N):
        raise ValueError(f"folds must be between 2 and the {len(score_N)} pairs; got {folds}")
    if not np.isfinite(score_N).all():
        raise ValueError("scores must be finite")
    fold_N = np.repeat(np.arange(folds), [len(part) for part in np.array_split(score_N, folds)])
    order = np.argsort(score_N, kind="stable")
    rates = []
    for fold in range(folds):
        train = order[fold_N[order] != fold]
        threshold = _best_threshold(score_N[train], same_N[train])
        test_N = fold_N == fold
        rates.append(float(((score_N[test_N] >= threshold) == same_N[test_N]).mean()))
    return float(np.mean(rates)), float(np.std(rates, ddof=1))


def _best_threshold(score_N: NDArray[np.float64], same_N: NDArray[np.bool_]) -> float:
    """The lowest of the thresholds that judge most of the pairs rightly; their scores ascend."""
    # how many are judged rightly when the i-th and all after it are accepted, i = 0 … N
    right = np.concatenate([[same_N.sum()], same_N.sum() - np.cumsum(np.where(same_N, 1, -1))])
    right[1:-1][score_N[1:] == score_N[:-1]] = -1  # no threshold tells equal scores apart
    first = int(right.argmax())
    if first == 0:
        return -math.inf
    if first == len(score_N):
        return math.inf
    below, above = float(score_N[first - 1]), float(score_N[first])
    middle = below / 2 + above / 2
    return middle if middle > below else above


def _allowed(far: float, others: int) -> int:
    """The largest whole number n with n / others ≤ far, where 0.07 · 100 = 7.000000000000001."""
    if not 0 <= far <= 1:
        raise ValueError(f"a FAR must be between 0 and 1; got {far}")
    count = min(others, int(far * others) + 1)
    while count / others > far:
        count -= 1
    return count


def _pairs(scores: Any, same: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    score_N, same_N = _array(scores), _array(same).astype(np.bool_, copy=False)
    if score_N.shape != same_N.shape or score_N.ndim != 1:
        raise ValueError(f"every pair needs a score; got {same_N.shape} pairs and {score_N.shape} scores")
    if np.isnan(score_N).any():
        raise ValueError("scores must be numbers; got nan")
    if same_N.all() or not same_N.any():
        raise ValueError(f"pairs of both kinds are needed; got {int(same_N.sum())} same of {len(same_N)}")
    return score_N, same_N


def _array(values: Any) -> NDArray[Any]:
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        values = (values.float() if values.dtype == torch.bfloat16 else values).numpy()
    return np.asarray(values)
