"""How the true means of a search can scatter near the best: a few shapes, each with any place and width.

μ = m + τ u. The shapes of u: normal; t with 3 degrees; exponential and Lomax (a Pareto tail from 0 on), with
the tail to lower or to higher values. A tail to lower values ends in a limit: of the metric, or of what the
model can learn. A Lomax one crowds at it, and has means far below. Each u has the quartile range of a normal,
so that τ means the same for all.

Shapes: G points (shape, τ, m), E edges of an axis.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import betaincinv, ndtr, ndtri, stdtr, stdtrit

from dmltune.search.design import Floats

_WIDTHS = 12  # points of τ
_EQUAL = 0.1  # prior probability that all true means are equal: the narrowest width
_PLACES = 9  # points of m
_BEYOND = 3.0  # standard deviations of m that its points cover
_QUANTILES = (np.arange(20) + 0.5) / 20


def _exponential(u: Floats) -> Floats:
    return np.asarray(-np.expm1(-np.maximum(u, 0)))


def _lomax(u: Floats) -> Floats:
    return np.asarray(1 - 1 / (1 + np.maximum(u, 0)))


Pair = tuple[Callable[[Floats], Floats], Callable[[Floats], Floats]]


def _one(cumulated: Callable[[Floats], Floats], quantile: Callable[[Floats], Floats]) -> Pair:
    """Return distribution and quantile function with the quartile range of a normal distribution."""
    scale = float(np.diff(quantile(np.array([0.25, 0.75])))[0] / np.diff(ndtri([0.25, 0.75]))[0])
    return lambda u: cumulated(u * scale), lambda p: quantile(p) / scale


def _mirrored(pair: Pair) -> Pair:
    cumulated, quantile = pair
    return lambda u: 1 - cumulated(-u), lambda p: -quantile(1 - p)


_EXPONENTIAL = _one(_exponential, lambda p: -np.log1p(-p))
_LOMAX = _one(_lomax, lambda p: p / (1 - p))
SHAPES: tuple[Pair, ...] = (
    _one(ndtr, ndtri),
    _one(lambda u: stdtr(3, u), lambda p: stdtrit(3, p)),
    _mirrored(_EXPONENTIAL),
    _mirrored(_LOMAX),
    _EXPONENTIAL,
)


class Shapes:
    """The populations of true means that are thought possible around an anchor.

    m is such that a score is above the anchor with a probability that `above` and `below` so many scores
    allow. The prior is flat in m and that of `beliefs.py` in τ, and all shapes are equally probable.
    """

    def __init__(self, anchor: float, above: float, below: float, widest: float) -> None:
        self._anchor = anchor
        self._ratios = np.geomspace(0.05, widest, _WIDTHS)[:, None]  # τ/σ
        levels = 1 - betaincinv(above + 0.5, below + 0.5, ndtr(np.linspace(-_BEYOND, _BEYOND, _PLACES)))
        at = np.clip(np.round(levels * len(_QUANTILES) ** 2 - 0.5), 0, len(_QUANTILES) ** 2 - 1).astype(int)
        self._places = []  # anchor minus m in units of σ, (widths, places) for each shape
        for _, quantile in SHAPES:
            sums = self._ratios[:, :, None] * quantile(_QUANTILES)[:, None] + ndtri(_QUANTILES)
            self._places.append(np.sort(sums.reshape(_WIDTHS, -1), axis=1)[:, at])
        chance = self._ratios / (1 + self._ratios) ** 2
        chance *= (1 - _EQUAL) / chance.sum()
        chance[0] += _EQUAL
        flat = [np.abs(np.gradient(places, axis=1)) * chance for places in self._places]
        self.log_prior = np.log(np.maximum(np.array(flat), 1e-300)).ravel()  # (G,)

    def cumulated(self, edges: Floats, noise: float) -> Floats:
        """Return the distribution functions at the edges (G, E)."""
        values = []
        for (function, _), places in zip(SHAPES, self._places, strict=True):
            u = (edges - self._anchor) / noise + places[:, :, None]
            values.append(function(u / self._ratios[:, :, None]).reshape(-1, len(edges)))
        return np.concatenate(values)
