"""Spearman's rank correlation of few pairs, with an interval that is right for few pairs.

The interval holds all correlations ρ of a bivariate normal distribution under which the observed r is not
unlikely: P(R ≥ r | ρ) ≥ 5 % and P(R ≤ r | ρ) ≥ 5 %. At ρ = 0 that is the permutation test, so the interval
is above 0 if the order of the pairs is significant. Fisher's transformation needs more pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from dmltune.search.extrapolation import Floats

TAIL = 0.05  # on either side: a 90 % interval
SAMPLES = 20_000
EDGE = 0.999
BISECTIONS = 12


def mean_ranks(values_N: Floats) -> Floats:
    """Return the ranks from 1; ties have their mean rank, as scipy.stats has them, which loads slowly."""
    _, place_N, counts = np.unique(values_N, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: Floats = (last - (counts - 1) / 2)[place_N]
    return ranks


def spearman(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the correlation of the ranks, ties with their mean rank; 0 when one side is all equal."""
    a, b = mean_ranks(np.asarray(x)), mean_ranks(np.asarray(y))
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / scale if scale > 0 else 0.0


@lru_cache(maxsize=64)
def interval(correlation: float, pairs: int) -> tuple[float, float]:
    """Return the 90 % interval, which is the same whenever it is computed."""
    rng = np.random.default_rng(0)
    x_SN, e_SN = rng.normal(size=(2, SAMPLES, pairs))
    rank_SN = _ranks(x_SN)

    def sampled(rho: float) -> Floats:
        """Return r of samples at ρ; the same random numbers for all ρ."""
        other_SN = _ranks(rho * x_SN + np.sqrt(1 - rho**2) * e_SN)
        r_S: Floats = 1 - 6 * ((rank_SN - other_SN) ** 2).sum(axis=1) / (pairs * (pairs**2 - 1))
        return r_S

    low = _edge(lambda rho: float(np.mean(sampled(rho) >= correlation - 1e-9)) >= TAIL)
    high = -_edge(lambda rho: float(np.mean(sampled(-rho) <= correlation + 1e-9)) >= TAIL)
    return low, high


def _edge(likely: Callable[[float], bool]) -> float:
    """Return the lowest ρ that is likely, by bisection; likely ones are above unlikely ones."""
    if likely(0.0):
        below, above = -EDGE, 0.0
    else:
        below, above = 0.0, EDGE
    if likely(below):
        return -1.0
    if not likely(above):
        return above
    for _ in range(BISECTIONS):
        middle = (below + above) / 2
        below, above = (below, middle) if likely(middle) else (middle, above)
    return above


def _ranks(values_SN: Floats) -> Floats:
    ranks: Floats = values_SN.argsort(axis=1).argsort(axis=1).astype(float)
    return ranks
