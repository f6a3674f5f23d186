"""Mixtures of normal distributions: quantiles, sums, and few parts instead of many."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from dmltune.search.design import Floats


@dataclass(frozen=True)
class Mixture:
    """A mixture of normal distributions."""

    weights: Floats
    means: Floats
    variances: Floats

    @property
    def mean(self) -> float:
        return float(self.weights @ self.means)

    def below(self, value: float) -> float:
        """Return the probability of a value below this one."""
        return float(self.weights @ ndtr((value - self.means) / np.sqrt(self.variances)))

    def quantile(self, probability: float) -> float:
        """Return the quantile by bisection."""
        reach = 12 * np.sqrt(self.variances)
        low, high = float((self.means - reach).min()), float((self.means + reach).max())
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if self.below(middle) < probability else (low, middle)
        return (low + high) / 2


def plus(one: Mixture, other: Mixture) -> Mixture:
    """Return the mixture of the sum of two independent values."""
    return Mixture(
        np.outer(one.weights, other.weights).ravel(),
        np.add.outer(one.means, other.means).ravel(),
        np.add.outer(one.variances, other.variances).ravel(),
    )


def grouped(mixture: Mixture, groups: int, by: Floats) -> Mixture:
    """Return a mixture of few parts with the same mean and variance: parts next to each other are joined."""
    # Rounding decides neither between equals nor at a border, so that units do not matter.
    largest = float(np.abs(by).max()) or 1.0
    order = np.argsort(np.round(by / largest, 9), kind="stable")
    weights = mixture.weights[order]
    place = np.minimum((np.cumsum(weights) - weights / 2) * groups + 1e-9, groups - 1).astype(int)

    def summed(values: Floats) -> Floats:
        return np.asarray(np.bincount(place, values, groups))

    total = summed(weights)
    filled = total > 0
    total = np.where(filled, total, 1.0)
    means = summed(weights * mixture.means[order]) / total
    squares = summed(weights * (mixture.variances[order] + mixture.means[order] ** 2)) / total
    variances = np.maximum(squares - means**2, 0.0)
    return Mixture(total[filled] / total[filled].sum(), means[filled], variances[filled])
