"""Drop a trial after fold 1, 2, … of k when its paired differences to the incumbent are too low.

d_j = score of the trial in fold j − score of the incumbent in fold j,   d_j ~ N(δ, s²),   s² = 2 noise²

After fold j < k the trial is dropped if  z_j = Σ_{i≤j} d_i / (s √j)  is below −b_j. The bounds have the form
b_j = c·(j / (k−1))^0.1 (Wang and Tsiatis); c is such that a trial with δ = 0 is dropped in 5 % of all races.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtrit

_SHAPE = 0.1  # of 0.1 steps, the one that saves most at a gap of two standard deviations of a score
_GRID = 401


def drop(
    own: Sequence[float],
    incumbent: Sequence[float],
    k: int,
    noise: float | None,
    *,
    degrees: float = float("inf"),
    chosen_from: int = 1,
    error: float = 0.05,
) -> bool:
    """Return whether a trial with the scores `own` of its first folds leaves the race.

    `incumbent` holds the incumbent's scores of the same folds. `noise` is the standard deviation of a score
    around the means of its configuration and its fold (`fold_noise`), `degrees` its degrees of freedom.
    Nothing is dropped without them. An incumbent that is the best of `chosen_from` similar configurations
    (`near_best`) is lucky by E[max of so many N(0, noise²/k)], which is subtracted from its scores.
    """
    folds = len(own)
    if not 1 <= folds < k or degrees < 1 or noise is None:
        return False
    luck = noise / np.sqrt(k) * _expected_maximum(chosen_from)
    total = float(np.sum(np.subtract(own, incumbent[:folds]) + luck))
    # With an estimated noise the looks of a race depend on each other more: without this share only 4.1 % of
    # equal trials are dropped at 8 degrees (simulated for k = 3 and 5; with it 4.7 %).
    bound = bounds(k, round(error * (1 + (k - 2) / (3 * degrees)), 4))[folds - 1]
    if noise == 0:
        return total < 0
    # The same tail probability under Student's t as the bound has under the normal distribution.
    if np.isfinite(degrees):
        bound = -float(stdtrit(degrees, ndtr(-bound)))
    return bool(total < -bound * noise * np.sqrt(2 * folds))


@lru_cache(maxsize=64)
def bounds(k: int, error: float = 0.05, shape: float = _SHAPE) -> tuple[float, ...]:
    """Return b_1 … b_{k−1}: one bound for each fold after which a trial can be dropped."""
    form = (np.arange(1, k) / (k - 1)) ** shape
    low, high = 0.0, 8.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if share_dropped(middle * form)[-1] > error else (low, middle)
    return tuple(float(b) for b in high * form)


def share_dropped(limits: NDArray[np.float64], gap: float = 0.0) -> NDArray[np.float64]:
    """Return the share of trials dropped after fold 1, 2, … or earlier, with δ = −gap·s.

    The density of the sum of differences of trials that are still in the race, on a grid (Simpson's rule).
    """
    edges = -np.asarray(limits) * np.sqrt(np.arange(1, len(limits) + 1))
    dropped = [float(ndtr(edges[0] + gap))]
    previous: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
    for j, edge in enumerate(edges[:-1], start=1):
        x = np.linspace(edge, max(edge, -j * gap) + 9 * np.sqrt(j), _GRID)
        if previous is None:
            density = np.exp(-0.5 * (x + gap) ** 2) / np.sqrt(2 * np.pi)
        else:
            at, mass = previous
            density = (np.exp(-0.5 * (x[:, None] - at + gap) ** 2) / np.sqrt(2 * np.pi)) @ mass
        weights = np.full(_GRID, 2.0)
        weights[1::2] = 4.0
        weights[[0, -1]] = 1.0
        previous = (x, density * weights * (x[1] - x[0]) / 3)
        dropped.append(dropped[-1] + float(ndtr(edges[j] - x + gap) @ previous[1]))
    return np.array(dropped)


def _expected_maximum(number: int) -> float:
    """Return E[max of `number` standard normal variables], by Blom's approximation."""
    return float(ndtri((number - 0.375) / (number + 0.25))) if number > 1 else 0.0


def near_best(rows: Sequence[Sequence[float]], noise: float) -> int:
    """Return how many rows (scores in all k folds) have a mean within two standard errors of the best."""
    means = np.mean(rows, axis=1)
    return int((means >= means.max() - 2 * noise * np.sqrt(2 / len(rows[0]))).sum())


def fold_noise(rows: Sequence[Sequence[float]]) -> tuple[float | None, int]:
    """Return the standard deviation of a score around row mean + fold mean, with its degrees of freedom.

    `rows` are the scores of configurations in all k folds; NaN where a fold was not trained. It is the
    residual of the least squares fit y_rj = a_r + b_j, for complete rows

        s² = Σ (y_rj − ȳ_r − ȳ_j + ȳ)² / ((rows − 1)(k − 1)).
    """
    scores = np.array(rows, dtype=float)
    if scores.ndim != 2:
        return None, 0
    row, fold = np.nonzero(np.isfinite(scores))
    effects = np.zeros((len(row), sum(scores.shape)))
    effects[np.arange(len(row)), row] = effects[np.arange(len(row)), len(scores) + fold] = 1.0
    y = scores[row, fold] - np.nanmean(scores) if len(row) else scores[row, fold]
    fitted, _, rank, _ = np.linalg.lstsq(effects, y, rcond=None)
    degrees = len(row) - int(rank)
    if degrees < 1:
        return None, 0
    return float(np.sqrt(((y - effects @ fitted) ** 2).sum() / degrees)), degrees
