"""A noise of its own for each configuration, and what its scores then say about its true mean.

    score_b = μ + e_b,   e ~ N(0, σ²),   σ² ~ ν s(μ)² / χ²(ν),   s(μ)² = s² + β² (top − μ)₊²

Configurations differ in their noise: at random, with ν degrees of freedom (ν = ∞: all have the same), and
because of their means: errors, losses and collapses are larger far below the best (β). Given (s, ν, β) the
noise of a configuration integrates to a t distribution of its μ, so that nothing is sampled.

Shapes: n configurations, C cells of an axis of true means.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ndtr, ndtri, stdtr, stdtrit

from dmltune.search.design import Design, Floats


@dataclass(frozen=True)
class NoiseModel:
    """One hypothesis about the noise of all configurations."""

    s: float
    degrees: float  # ν
    slope: float  # β
    top: float

    def at(self, means: Floats) -> Floats:
        """Return s(μ)."""
        return np.asarray(np.hypot(self.s, self.slope * np.maximum(self.top - means, 0.0)))

    def below(self, values: Floats) -> Floats:
        """Return the distribution function of an error in units of s(μ)."""
        return np.asarray(ndtr(values) if np.isinf(self.degrees) else stdtr(self.degrees, values))


@dataclass(frozen=True)
class Reduced:
    """Configurations as means and sums of squares, without the effects of seeds and folds."""

    counts: Floats  # (n,)
    means: Floats  # (n,)
    squares: Floats  # (n,) Σ_b (y_b − ȳ)²

    def __getitem__(self, which: NDArray[np.generic]) -> Reduced:
        return Reduced(self.counts[which], self.means[which], self.squares[which])

    def spread(self, s: Floats, degrees: float) -> tuple[Floats, Floats]:
        """Return degrees and scale of the t distribution of μ around ȳ under a flat prior, for s (n, ·)."""
        counts, squares = self.counts[:, None], self.squares[:, None]
        if np.isinf(degrees):
            return np.full(counts.shape, np.inf), s / np.sqrt(counts)
        own = degrees + counts - 1
        return own, np.sqrt((degrees * s**2 + squares) / (counts * own))

    def log_evidence(self, s: Floats, degrees: float) -> Floats:
        """Return log ∫ p(scores | μ, s, ν) dμ for s (n, ·): p(scores | μ) = this · density of `spread`."""
        counts, squares = self.counts[:, None], self.squares[:, None]
        own, scale = self.spread(s, degrees)
        if np.isinf(degrees):
            value = -squares / (2 * s**2) - (counts - 1) * np.log(s * np.sqrt(2 * np.pi))
            return np.asarray(value - 0.5 * np.log(counts))
        value = gammaln(own / 2) - gammaln(degrees / 2) + 0.5 * np.log(own * np.pi) + np.log(scale)
        value = value - 0.5 * counts * np.log(degrees * s**2 * np.pi)
        return np.asarray(value - 0.5 * (degrees + counts) * np.log1p(squares / (degrees * s**2)))

    def evidence(self, noise: NoiseModel) -> float:
        """Return the log evidence of all configurations under flat priors, with s at their mean scores."""
        return float(self.log_evidence(noise.at(self.means)[:, None], noise.degrees).sum())

    def quantiles(self, noise: NoiseModel, probabilities: Floats) -> Floats:
        """Return quantiles of each μ under a flat prior (n, ·)."""
        own, scale = self.spread(noise.at(self.means)[:, None], noise.degrees)
        t = ndtri(probabilities) if np.isinf(noise.degrees) else stdtrit(own, probabilities)
        return np.asarray(self.means[:, None] + scale * t)

    def in_cells(self, edges: Floats, noise: NoiseModel) -> tuple[Floats, Floats]:
        """Return the mean of p(scores | μ) over each cell between the edges, and its scale.

        p = value · exp(scale), value (n, C), scale (n,). s is that of a cell's center.
        """
        s = noise.at((edges[1:] + edges[:-1]) / 2)[None, :]
        own, scale = self.spread(s, noise.degrees)
        distance = edges - self.means[:, None]
        low, high = distance[:, :-1] / scale, distance[:, 1:] / scale
        mass = ndtr(high) - ndtr(low) if np.isinf(noise.degrees) else stdtr(own, high) - stdtr(own, low)
        evidence = self.log_evidence(s, noise.degrees) - np.log(np.diff(edges))
        largest = evidence.max(axis=1)
        return np.asarray(mass * np.exp(evidence - largest[:, None])), largest


def reduced(design: Design, effects: Floats) -> Reduced:
    """Return the configurations without the effects of seeds and folds."""
    n, counts = len(design.candidates), design.counts
    scores = design.scores - design.columns @ effects
    means: Floats = np.asarray(np.bincount(design.owner, scores, n) / counts)
    squares: Floats = np.bincount(design.owner, (scores - means[design.owner]) ** 2, n).astype(np.float64)
    return Reduced(counts.astype(np.float64), means, squares)
