"""What noisy scores, some of them repeated, say about the true means of the candidates.

The model is that of `population.py`. Its three hyperparameters (σ, τ, s) are integrated on a grid: coarse,
then fine where the weight is. A belief is a mixture over the points of the grid, so that few repetitions give
wide intervals, and the winner's mean is shrunk by as much as the search as a whole says.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr
from scipy.stats import chi2

from dmltune.search.design import Design, Floats, pooled_noise
from dmltune.search.mixtures import Mixture
from dmltune.search.population import Population, Solution

_SEED_RATIOS = (0.05, 0.5, 1.0, 2.0, 5.0, 20.0)  # s/σ
_SEED_CHANCES = (0.5, 0.15, 0.13, 0.1, 0.07, 0.05)
_NEGLIGIBLE = 1e-4
_LEAST = 1e-60  # a smaller noise is none: numbers divided by its square are too large
_WIDE = 3.0  # the spread of a tenth of the population, in units of τ


@dataclass(frozen=True)
class Beliefs:
    """The joint posterior of the candidates' means μ at the points of the grid that carry weight.

    μ_i = base_i + load_i·ψ + N(0, own_i). Plain candidates share a kind: the same load and own variance.
    The lower half (outsiders) has a flat prior, unless it is as the best half lets expect: see `_alike`.
    """

    candidates: list[int]
    weights: Floats  # (G,)
    noise: Floats  # (G,) σ
    means: Floats  # (G, n + outside) posterior means of μ_i, and those that outsiders have as insiders
    kind: NDArray[np.int64]  # (n + outside,) column of `load` and `own`
    outside: NDArray[np.int64]  # (outside,) indices of the outsiders
    alike: Floats  # (G, outside) probability that they are insiders
    load: Floats  # (G, kinds, q)
    own: Floats  # (G, kinds) variances given ψ
    psi: Floats  # (G, q) the posterior mean of ψ
    covariance: Floats  # (G, q, q)
    shift: int | None  # the element of ψ that takes a mean from the main block to all seeds

    @property
    def expected(self) -> Floats:
        """The posterior means (n,)."""
        return np.asarray(self.weights @ self.means[:, : len(self.candidates)])

    @property
    def own_variances(self) -> Floats:
        """What repetitions of a candidate could remove from the variance of its mean (n,)."""
        return np.asarray((self.weights @ self.own)[self.kind[: len(self.candidates)]])

    def mean_of(self, index: int) -> Mixture:
        """Return the mean of a candidate over all seeds, in the most frequent fold."""
        load, means = self.load[:, self.kind[index]], self.means[:, index]
        if self.shift is not None:
            load = load.copy()
            load[:, self.shift] += 1
            means = means + self.psi[:, self.shift]
        shared = np.einsum("gq,gqr,gr->g", load, self.covariance, load)
        return Mixture(self.weights, means, self.own[:, self.kind[index]] + shared)

    def difference(self, index: int, other: int) -> Mixture:
        """Return μ_index − μ_other for two different candidates."""
        means = self.means[:, index] - self.means[:, other]
        return Mixture(self.weights, means, self._difference_variances(other)[:, self.kind[index]])

    def not_below(self, other: int) -> Floats:
        """Return P(μ_i ≥ μ_other) for all i (n,); that of `other` itself is 1."""
        deviations = np.sqrt(self._difference_variances(other))
        chances_GN = ndtr((self.means - self.means[:, [other]]) / deviations[:, self.kind])
        n = len(self.candidates)
        as_insiders = chances_GN[:, n:]
        chances_GN[:, self.outside] += self.alike * (as_insiders - chances_GN[:, self.outside])
        chances = np.asarray(self.weights @ chances_GN[:, :n])
        chances[other] = 1.0
        return chances

    def _difference_variances(self, other: int) -> Floats:
        kind = self.kind[other]
        load = self.load - self.load[:, [kind]]
        shared = (load @ self.covariance * load).sum(axis=2)
        return np.asarray(self.own + self.own[:, [kind]] + shared)


def beliefs(design: Design, noise: float | None = None) -> Beliefs | None:
    """Return the beliefs; None without knowledge of the noise (no repetition, or no noise)."""
    spread, degrees = pooled_noise(design)
    if (noise is None and not spread) or not design.candidates:
        return None
    if (noise or spread or 0.0) < _LEAST:
        return None
    population = Population(design)
    ratios = np.geomspace(0.05, max(60.0, 4 * population.reach / (noise or spread or 1.0)), 12)
    sigmas = np.array([noise]) if noise else _noise_range(spread or 0.0, degrees, population)
    grid = _weighted(population, sigmas, ratios)[0]
    sigmas, ratios = _around(grid[:, 0], sigmas), _around(grid[:, 1] / grid[:, 0], ratios)
    return _posterior(population, *_weighted(population, sigmas, ratios))


def _weighted(population: Population, sigmas: Floats, ratios: Floats) -> tuple[Floats, Floats, Solution]:
    """Return the points of a grid that carry weight, their weights and solutions."""
    grid, prior = _grid(sigmas, ratios, population.has_seeds)
    solution = population.solve(grid)
    log_weights = solution.log_weights + prior
    weights = np.exp(log_weights - log_weights.max())
    heavy = weights > _NEGLIGIBLE
    remaining = Solution(log_weights[heavy], solution.psi[heavy], solution.precision[heavy])
    return grid[heavy], weights[heavy] / weights[heavy].sum(), remaining


def _noise_range(spread: float, degrees: int, population: Population) -> Floats:
    """Return σ from the 0.05 % to the 99.95 % point of its likelihood, but not beyond the scores' range."""
    low, high = spread * np.sqrt(degrees / chi2.ppf([0.9995, 0.0005], degrees))
    if population.has_seeds:  # the pooled spread contains their effects
        rest, rest_degrees = pooled_noise(population.design, without_seeds=True)
        if rest:
            low = min(low, rest * np.sqrt(rest_degrees / chi2.ppf(0.9995, rest_degrees)))
        else:
            low /= 10
    return np.geomspace(low, max(2 * spread, min(high, 2 * population.reach)), 10)


def _grid(sigmas: Floats, ratios: Floats, has_seeds: bool) -> tuple[Floats, Floats]:
    """Return points (σ, τ, s), evenly spaced in the logarithms, and the log of their prior."""
    shared, chances = (_SEED_RATIOS, _SEED_CHANCES) if has_seeds else (_SEED_RATIOS[:1], _SEED_CHANCES[:1])
    sigma, ratio, share = (axis.ravel() for axis in np.meshgrid(sigmas, ratios, shared, indexing="ij"))
    prior = np.log(ratio / (1 + ratio) ** 2 + 0.1 / (1 + ratio**4)) + np.tile(
        np.log(chances), len(sigmas) * len(ratios)
    )
    return np.stack([sigma, sigma * ratio, sigma * share], axis=1), prior


def _around(values: Floats, axis: Floats, number: int = 11) -> Floats:
    """Return a finer axis over the values and one step of the old axis beyond."""
    if len(axis) < 2:
        return axis
    step = axis[1] / axis[0]
    return np.geomspace(max(values.min() / step, axis[0]), min(values.max() * step, axis[-1]), number)


def _posterior(population: Population, grid: Floats, weights: Floats, solution: Solution) -> Beliefs:
    design, own = population.design, population.own
    (sigma2, tau2, _) = (grid**2).T[:, :, None]
    outside = np.flatnonzero(design.is_candidate & ~population.inside)
    # Kinds: candidates with a term of their own, these as insiders, then plain ones outside and inside.
    counts = np.concatenate([np.tile(population.counts[own], 2), [1, 1]])
    inside = np.concatenate([population.inside[own], np.ones(len(own), dtype=bool), [False, True]])
    effects = np.vstack([population.effects[own]] * 2 + [np.zeros((2, design.columns.shape[1]))])
    kind = np.where(population.inside, 2 * len(own) + 1, 2 * len(own))
    kind[own] = np.arange(len(own))
    as_insider = np.where(population.plain, 2 * len(own) + 1, kind + len(own))[outside]
    kind, member = np.append(kind, as_insider), np.append(np.arange(len(kind)), outside)
    trust = np.where(inside, counts * tau2 / (counts * tau2 + sigma2), 1.0)  # (G, kinds)
    own_variance = sigma2 * trust / counts
    # Repeated candidates: mean and variance of the mixture of both parts of the population.
    repeated, chance, distance2 = slice(0, len(own)), *_far_above(population, grid, solution)
    wide = counts * _WIDE**2 * tau2 / (counts * _WIDE**2 * tau2 + sigma2)
    more = np.where(inside, wide - trust, 0.0)[:, repeated]
    trust[:, repeated] += chance * more
    own_variance[:, repeated] = sigma2 * trust[:, repeated] / counts[repeated]
    own_variance[:, repeated] += chance * (1 - chance) * more**2 * distance2
    load = np.concatenate([(1 - trust)[:, :, None], -trust[:, :, None] * effects], axis=2)
    shared = np.einsum("gkq,gq->gk", load, solution.psi)
    means = trust[:, kind] * population.means[member] + shared[:, kind] + population.offset
    return Beliefs(
        candidates=design.candidates,
        weights=weights,
        noise=grid[:, 0],
        means=means,
        kind=kind,
        outside=outside,
        alike=_alike(population, grid, solution, outside),
        load=load,
        own=own_variance,
        psi=solution.psi,
        covariance=solution.covariance,
        shift=None if design.shift is None else 1 + design.shift,
    )


def _far_above(population: Population, grid: Floats, solution: Solution) -> tuple[Floats, Floats]:
    """Return the probability that a candidate is of a wide tenth of the population, and (ȳ − fit)² (G, own).

    A tenth has the prior N(m, (3τ)²), so that a rare good configuration is not shrunk to the others.
    """
    own = population.own
    fitted = solution.psi[:, [0]] + solution.psi[:, 1:] @ population.effects[own].T
    distance2 = (population.means[own] - fitted) ** 2
    error2 = grid[:, [0]] ** 2 / population.counts[own]
    narrow, wide = error2 + grid[:, [1]] ** 2, error2 + (_WIDE * grid[:, [1]]) ** 2
    log_odds = 0.5 * (np.log(narrow / wide) + distance2 * (1 / narrow - 1 / wide)) + np.log(1 / 9)
    return np.asarray(expit(log_odds)), np.asarray(distance2)


def _alike(population: Population, grid: Floats, solution: Solution, outside: NDArray[np.int64]) -> Floats:
    """Return the probability that outsiders are of the population of the best half (G, outside).

    = expected number of configurations at or below y_i under N(m, τ² + σ²) / their number, at most 1
    """
    means = population.means[outside]
    rank = np.searchsorted(np.sort(means), means, side="right")
    variance = (grid[:, [1]] ** 2) + grid[:, [0]] ** 2
    total = int(population.design.is_candidate.sum())
    expected = total * ndtr((means - solution.psi[:, [0]]) / np.sqrt(variance))
    return np.asarray(np.minimum(1.0, expected / rank))
