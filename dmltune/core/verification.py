"""Face verification: true acceptance rate at a false acceptance rate, and the accuracy of LFW.

N pairs with a score each, higher is more alike. A threshold t accepts the pairs with score ≥ t.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_BLOCK = 1 << 20  # scores processed at once


def tar_at_far(scores: Any, same: Any, fars: Sequence[float]) -> list[float]:
    """Return for every FAR the largest share of same pairs that a threshold accepts at this FAR.

    Exact. Equal scores are accepted or refused together; a FAR of 0 refuses every other pair. O(N) in time.
    Memory holds the scores of the same pairs and the highest of the other pairs, as many as the largest FAR
    accepts; memory-mapped arrays are read block by block.
    """
    score_N, same_N = _pairs(scores, same)
    others = len(same_N) - int(np.count_nonzero(same_N))
    allowed = [_allowed(far, others) for far in fars]
    # The best threshold lies just above the score of the first other pair that may not be accepted.
    highest = _highest_others(score_N, same_N, max([0, *(n + 1 for n in allowed if n < others)]))
    own = np.concatenate([score_N[block][same_N[block]] for block in _blocks(score_N)])
    return [
        float(np.count_nonzero(own > highest[-1 - count]) / len(own)) if count < others else 1.0
        for count in allowed
    ]


def _highest_others(score_N: NDArray[Any], same_N: NDArray[np.bool_], count: int) -> NDArray[Any]:
    """Return the `count` highest scores of pairs that are not the same, ascending."""
    size = _BLOCK if count < len(score_N) // 8 else len(score_N)
    top = score_N[:0]
    for block in _blocks(score_N, size) if count else ():
        other = score_N[block][~same_N[block]]
        if len(top) == count:  # what is not above the lowest of them changes nothing
            other = other[other > top[0]]
        top = np.concatenate([top, other]) if len(top) else other
        if len(top) > count:
            top.partition(len(top) - count)
            top = top[len(top) - count :]
    top.sort()
    return top


def _blocks(x_N: NDArray[Any], size: int = _BLOCK) -> Iterator[slice]:
    return (slice(start, start + size) for start in range(0, len(x_N), size))


def accuracy(scores: Any, same: Any, folds: int = 10) -> tuple[float, float]:
    """Return the mean of the folds' accuracies and their standard deviation (with folds − 1).

    LFW's tables give the standard error, this / √folds. The folds are contiguous, as in the official lists
    (sizes differ by one at most). The threshold of a fold is the best on all the others, half-way between two
    scores there; of equally good ones the lowest.
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
    """Return the lowest threshold that judges most pairs rightly; the scores ascend."""
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
    """Return the largest whole number n with n / others ≤ far (0.07 · 100 = 7.000000000000001)."""
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
    if any(np.isnan(score_N[block]).any() for block in _blocks(score_N)):
        raise ValueError("scores must be numbers; got nan")
    if same_N.all() or not same_N.any():
        raise ValueError(f"pairs of both kinds are needed; got {int(same_N.sum())} same of {len(same_N)}")
    return score_N, same_N


def _array(values: Any) -> NDArray[Any]:
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        values = (values.float() if values.dtype == torch.bfloat16 else values).numpy()
    return np.asarray(values)
