"""Drop a trial after fold 1, 2, … of k when it is too far below the incumbent, the best with all folds.

With the model  score = configuration + fold + N(0, noise²), after j folds the trial is below the incumbent by

    d_j = mean of its j scores − mean of the incumbent's k scores − mean over R rows of (first j − all k),

where the rows are those of the incumbent and of all that are like it (`near_best`): they tell how hard the
first folds are. With R = 1 d_j is the mean of the paired differences. The incumbent is the best of R that may
be equal: its mean is that of the maximum M of R standard normal variables, times noise / √k. So d_j has

    mean  δ − E[M] noise / √k,    variance  v_j noise²,    v_j = 1/j + Var[M] / k + (1/j − 1/k) / R.

From more and more scores of the trial, (d_j − mean) / v_j is a random walk in the time 1/v_j. The trial is
dropped if it is below −b_j √time_j. The bounds have the form b_j = c·(time_j / last time)^0.1 (Wang and
Tsiatis); with this c a trial with δ = 0 is dropped in 5 % of races.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtrit

Floats = NDArray[np.float64]

_SHAPE = 0.1  # of 0.1 steps, the one that saves most at a gap of two standard deviations of a score
_GRID = 401
_NEAR = 3.0  # standard errors, or as unlikely a distance under Student's t


def drop(
    own: Sequence[float],
    rows: Sequence[Sequence[float]],
    noise: float | None,
    *,
    degrees: float = float("inf"),
    error: float = 0.05,
) -> bool:
    """Return whether a trial with the scores `own` of its first folds leaves the race.

    `rows` are the scores of the configurations with all folds. `noise` is the standard deviation of a score
    around the means of its configuration and its fold (`fold_noise`), `degrees` its degrees of freedom.
    Nothing is dropped without them.
    """
    scores_RK = np.array(rows, dtype=float, ndmin=2)
    folds, k = len(own), scores_RK.shape[1]
    if not 1 <= folds < k or degrees < 1 or noise is None:
        return False
    near_RK = near_best(scores_RK, noise, degrees)
    harder = float((near_RK[:, :folds].mean(axis=1) - near_RK.mean(axis=1)).mean())
    gap = float(np.mean(own)) - float(near_RK.mean(axis=1).max()) - harder
    if noise == 0:
        return bool(gap < 0)
    luck, spread = maximum(len(near_RK))
    times = information(k, len(near_RK), spread)
    bound = bounds(times, error)[folds - 1] + luck * np.sqrt(times[folds - 1] / k)
    # The same tail probability under Student's t as the bound has under the normal distribution.
    if np.isfinite(degrees):
        bound = -float(stdtrit(degrees, ndtr(-bound)))
    return bool(gap < -bound * noise / np.sqrt(times[folds - 1]))


def information(k: int, rows: int = 1, spread: float = 1.0) -> tuple[float, ...]:
    """Return 1/v_1 … 1/v_{k−1}, where `spread` is Var[M]."""
    return tuple(1 / (1 / j + spread / k + (1 / j - 1 / k) / rows) for j in range(1, k))


@lru_cache(maxsize=256)
def maximum(number: int) -> tuple[float, float]:
    """Return mean and variance of the maximum of so many standard normal variables."""
    x = np.linspace(-10.0, 10.0, 4001)
    share = np.diff(ndtr(x) ** number)
    middle = (x[1:] + x[:-1]) / 2
    mean = float(share @ middle)
    return mean, float(share @ (middle - mean) ** 2)


@lru_cache(maxsize=256)
def bounds(times: tuple[float, ...], error: float = 0.05, shape: float = _SHAPE) -> tuple[float, ...]:
    """Return b_1 … b_{k−1}: one bound for each fold after which a trial can be dropped."""
    form = (np.array(times) / times[-1]) ** shape
    low, high = 0.0, 8.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if share_dropped(middle * form, times)[-1] > error else (low, middle)
    return tuple(float(b) for b in high * form)


def share_dropped(limits: Floats, times: Sequence[float], gap: float = 0.0) -> Floats:
    """Return the share of trials dropped after fold 1, 2, … or earlier, with δ = −gap·noise.

    The density of a random walk with the drift −gap that is still above all −b_j √time_j, on a grid
    (Simpson's rule).
    """
    times_J = np.asarray(times, dtype=float)
    edges = -np.asarray(limits) * np.sqrt(times_J)
    dropped = [float(ndtr((edges[0] + gap * times_J[0]) / np.sqrt(times_J[0])))]
    previous: tuple[Floats, Floats] | None = None
    for j, edge in enumerate(edges[:-1]):
        time, before = times_J[j], times_J[j - 1] if j else 0.0
        x = np.linspace(edge, max(edge, -time * gap) + 9 * np.sqrt(time), _GRID)
        at, mass = previous if previous else (np.zeros(1), np.ones(1))
        step = time - before
        z = (x[:, None] - at + gap * step) / np.sqrt(step)
        density = (np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi * step)) @ mass
        weights = np.full(_GRID, 2.0)
        weights[1::2] = 4.0
        weights[[0, -1]] = 1.0
        previous = (x, density * weights * (x[1] - x[0]) / 3)
        step = times_J[j + 1] - time
        falls = ndtr((edges[j + 1] - x + gap * step) / np.sqrt(step))
        dropped.append(dropped[-1] + float(falls @ previous[1]))
    return np.array(dropped)


def near_best(scores_RK: Floats, noise: float, degrees: float = float("inf")) -> Floats:
    """Return the rows whose mean cannot be told from the best one."""
    means_R = scores_RK.mean(axis=1)
    errors = float(stdtrit(degrees, ndtr(_NEAR))) if np.isfinite(degrees) else _NEAR
    near: Floats = scores_RK[means_R >= means_R.max() - errors * noise * np.sqrt(2 / scores_RK.shape[1])]
    return near


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
