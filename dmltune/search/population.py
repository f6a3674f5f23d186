"""The likelihood of noise and spread: how the scores of a search's best half scatter.

    score[i, b] = μ_i + z_b·θ + e,   e ~ N(0, σ²),   μ_i ~ N(m, τ²) for the best half of the candidates.

The population of a search is skewed: many configurations are far below the best. So only candidates with a
score in the best half have this prior (they are *inside*). The others enter the fit as "below the threshold"
(type II censoring); their own means have a flat prior, as has the baseline's.

Priors: m flat, σ log-uniform, p(τ | σ) = σ / (σ + τ)², seed effects N(0, s²), fold effects nearly free. Given
(σ, τ, s) all is Gaussian in ψ = (m, θ) once the censored part is replaced by its quadratic at the mode of m.

Shapes: G points (σ, τ, s), T candidates with a term of their own, q = 1 + number of effects.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from dmltune.search.design import Design, Floats

_FAR = 30.0  # standard deviations


@dataclass(frozen=True)
class Solution:
    """The posterior of ψ at each point, and the log of each point's weight."""

    log_weights: Floats  # (G,)
    psi: Floats  # (G, q)
    precision: Floats  # (G, q, q)

    @property
    def covariance(self) -> Floats:
        """The inverse of the precision; most points of a grid carry no weight and need none."""
        return np.asarray(np.linalg.inv(self.precision))


class Population:
    """The scores of a design, reduced to what the likelihood needs.

    Plain candidates (one score, in the main block) are summed up; all others have a term of their own.
    """

    def __init__(self, design: Design) -> None:
        self.design = design
        n = len(design.candidates)
        self.counts = design.counts
        self.threshold = design.threshold
        self.inside = design.is_candidate & design.high
        marked = np.bincount(design.owner, np.abs(design.columns).sum(axis=1), n) > 0
        self.plain = (self.counts == 1) & ~marked
        self.offset = float(np.median(design.first[self.inside])) if self.inside.any() else 0.0
        self.means = design.means - self.offset
        self.reach = float(np.ptp(design.scores[design.high[design.owner]]))
        self._sum_up(int((design.is_candidate & ~self.inside).sum()))

    @property
    def has_seeds(self) -> bool:
        return bool((~self.design.is_fold).any())

    def _sum_up(self, censored: int) -> None:
        design = self.design
        pool = self.means[self.plain & self.inside]
        self._pool = (len(pool), float(pool.mean()) if len(pool) else 0.0)
        self._pool_squares = float(((pool - self._pool[1]) ** 2).sum())
        self._censored = censored
        self.own = np.flatnonzero(~self.plain)  # candidates with a term of their own (K)
        self.effects = np.zeros((len(design.candidates), design.columns.shape[1]))  # mean columns
        np.add.at(self.effects, design.owner, design.columns)
        self.effects /= self.counts[:, None]
        # Those that tell m, σ or the effects (T).
        self._telling = np.flatnonzero(~self.plain & (self.inside | design.noise_of))
        rows = np.isin(design.owner, self._telling)
        owner, y = design.owner[rows], design.scores[rows] - self.offset
        x = np.column_stack([self.inside[owner].astype(float), design.columns[rows]])
        x_mean = np.column_stack([self.inside.astype(float), self.effects])[self._telling]
        self._group(x_mean * self.counts[self._telling, None], (self.means * self.counts)[self._telling])
        self._xx, self._xy, self._yy = x.T @ x, x.T @ y, float(y @ y)
        # A first estimate of the effects, for the point at which the censored part is expanded.
        within = design.columns[rows] - self.effects[owner]
        effects = np.linalg.lstsq(within, y - self.means[owner], rcond=1e-9)[0] if len(y) else x[0:0, 0]
        adjusted = self.means[self._telling] - self.effects[self._telling] @ effects
        self._adjusted = np.bincount(self._group_of, adjusted, len(self._group_counts))

    def _group(self, x_sum: Floats, y_sum: Floats) -> None:
        """Sum up candidates with equally many scores on the same side of the threshold (R groups).

        Their covariances are equal, so that a long search costs no more than a short one.
        """
        kinds = np.stack([self.counts[self._telling], self.inside[self._telling]], axis=1)
        groups, self._group_of = np.unique(kinds, axis=0, return_inverse=True)
        self._group_of = self._group_of.reshape(-1)
        number = len(groups)
        self._group_counts, self._group_inside = groups[:, 0], groups[:, 1].astype(bool)
        self._group_sizes = np.bincount(self._group_of, minlength=number)
        q = x_sum.shape[1]
        self._xx_sums, self._xy_sums = np.zeros((number, q, q)), np.zeros((number, q))
        for group in range(number):
            member = self._group_of == group
            self._xx_sums[group] = x_sum[member].T @ x_sum[member]
            self._xy_sums[group] = x_sum[member].T @ y_sum[member]
        self._yy_sums = np.bincount(self._group_of, y_sum**2, number)

    def solve(self, grid: Floats) -> Solution:
        """Return the posterior of ψ at the points (σ, τ, s) of a grid (G, 3), with their log weights."""
        sigma2, tau2, seed2 = (grid**2).T
        counts, inside, sizes = self._group_counts, self._group_inside, self._group_sizes
        # V_k⁻¹ = (I − c_k 11ᵀ)/σ²
        c = np.where(inside, tau2[:, None] / (sigma2[:, None] + counts * tau2[:, None]), 1 / counts)
        xx = self._xx - np.tensordot(c, self._xx_sums, axes=1)
        xy, yy = self._xy - c @ self._xy_sums, self._yy - c @ self._yy_sums
        precision, linear = xx / sigma2[:, None, None], xy / sigma2[:, None]
        degrees = counts @ sizes - sizes[~inside].sum()
        log_weights = -0.5 * yy / sigma2 - 0.5 * degrees * np.log(sigma2)
        log_weights -= 0.5 * np.log1p(counts[inside] * (tau2 / sigma2)[:, None]) @ sizes[inside]
        free = (10 * self.reach) ** 2
        prior = np.where(self.design.is_fold, free, seed2[:, None])  # (G, q − 1)
        effects = np.arange(1, precision.shape[1])
        precision[:, effects, effects] += 1 / prior
        log_weights -= 0.5 * np.log(prior).sum(axis=1)
        at = self._mode(sigma2, tau2)
        value, slope, curvature = self._pool_terms(at, sigma2 + tau2)
        precision[:, 0, 0] += curvature
        linear[:, 0] += slope + curvature * at
        log_weights += value - slope * at - 0.5 * curvature * at**2
        psi = np.linalg.solve(precision, linear[:, :, None])[:, :, 0]
        log_weights += 0.5 * (linear * psi).sum(axis=1) - 0.5 * _log_determinants(precision)
        return Solution(log_weights, psi, precision)

    def _pool_terms(self, m: Floats, variance: Floats) -> tuple[Floats, Floats, Floats]:
        """Return log p(plain and censored scores | m), its slope and its negative curvature in m."""
        number, mean = self._pool
        value = -0.5 * number * np.log(variance)
        value -= (self._pool_squares + number * (mean - m) ** 2) / (2 * variance)
        slope, curvature = number * (mean - m) / variance, number / variance
        if self._censored:
            a = (self.threshold - self.offset - m) / np.sqrt(variance)
            log_below = log_ndtr(a)
            near = np.maximum(a, -_FAR)  # beyond, hazard = −a and hazard·(hazard + a) = 1
            hazard = np.exp(-0.5 * near**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(near))
            bend = np.where(a > -_FAR, hazard * (hazard + near), 1.0)
            hazard = np.where(a > -_FAR, hazard, -a)
            value = value + self._censored * log_below
            slope = slope - self._censored * hazard / np.sqrt(variance)
            curvature = curvature + self._censored * bend / variance
        return value, slope, curvature

    def _mode(self, sigma2: Floats, tau2: Floats) -> Floats:
        """Return the most probable m by Newton's method, with effects at their first estimate."""
        inside = self._group_inside
        weight = 1 / (tau2[:, None] + sigma2[:, None] / self._group_counts[inside])  # (G, inside groups)
        total = weight @ self._adjusted[inside]
        number = weight @ self._group_sizes[inside]
        step_limit = 2 * np.sqrt(sigma2 + tau2)
        m = np.zeros(len(sigma2))
        for _ in range(30):
            _, slope, curvature = self._pool_terms(m, sigma2 + tau2)
            slope = slope + total - number * m
            step = np.clip(slope / (curvature + number), -step_limit, step_limit)
            m = m + step
            if np.all(np.abs(step) < 1e-6 * step_limit):
                break
        return m


def _log_determinants(matrices: Floats) -> Floats:
    """Return log |M| of positive definite matrices, also of those that rounding has made indefinite."""
    try:
        roots = np.diagonal(np.linalg.cholesky(matrices), axis1=1, axis2=2)
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.slogdet(matrices)[1])
    return np.asarray(2 * np.log(roots).sum(axis=1))
