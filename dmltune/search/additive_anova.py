"""How much of the variance of a score each parameter explains: a functional ANOVA without interactions.

Notation: n trials, z_i the score of trial i, u_ij the place of its value in the range of parameter j,
a_ij = 1 where trial i has parameter j and 0 otherwise (a conditional one). The model is

    z_i = μ + Σ_j a_ij Σ_k φ_jk(u_ij) β_jk + ε_i,    β_jk ~ N(0, τ_j² d_jk),    ε_i ~ N(0, σ² + s_i²),

with functions φ_jk that are orthonormal under the uniform distribution on the range and have the mean 0
there: cosines cos(kπu) with d = 1/k² for numbers, contrasts with d = 1 for choices. So the variance that
parameter j causes over the whole range is Σ_k β_jk², which is Sobol's first index times the variance of z.
τ_j² and σ² maximise the restricted likelihood (MacKay's fixed point), which takes a parameter without effect
to τ_j² = 0: more noise does not make an estimate larger.

Values that lie close together say nothing of the rest of the range, and three things keep them from being
read as if they did. Cosines are bounded, where polynomials grow without end beside the tried values. τ_j² is
at most what would cause the whole variance of z: without that bound, noise between nearly equal values is
explained by a function of any height. And of the posterior variance only the part counts that the trials
have determined, Σ_k β_jk² ≈ b_jk² + v_jk (1 − v_jk/(τ_j² d_jk)): where they have not, v is the prior variance
and no finding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

TERMS = 4  # cosines, and fewer where a parameter has fewer values
ROUNDS = 60
TOLERANCE = 1e-3
EVENLY = (np.arange(64) + 0.5) / 64  # points that stand for the range of a real number
SMALLEST = 1e-9  # of a variance, relative to that of the scores


@dataclass(frozen=True)
class Effect:
    """The basis of one parameter: `columns` are φ_jk(u_ij) √d_jk with 0 for trials that lack it."""

    columns: Floats  # n × K
    weights: Floats  # K: d_jk
    share: float  # of the trials that have the parameter


@dataclass(frozen=True)
class Decomposition:
    """Variances of the additive parts, in the order of the effects, and what is left: σ²."""

    parts: Floats
    rest: float


def number_effect(places: Floats, has: NDArray[np.bool_], grid: Floats = EVENLY) -> Effect:
    """Return the effect of a number at `places` in [0, 1]; `grid` are equally likely values."""
    terms = min(TERMS, len(np.unique(grid)) - 1)
    # orthonormal columns on the grid: Gram-Schmidt of 1 and the cosines
    _, r = np.linalg.qr(_cosines(grid, terms))
    basis = _cosines(places, terms) @ np.linalg.inv(r) * np.sqrt(len(grid))
    weights = 1.0 / np.arange(1, terms + 1) ** 2
    return _effect(basis[:, 1:], weights, has)


def _cosines(places: Floats, terms: int) -> Floats:
    """Return 1, cos(πu), cos(2πu), …"""
    found: Floats = np.cos(np.pi * np.outer(places, np.arange(terms + 1)))
    return found


def choice_effect(chosen: NDArray[np.int64], has: NDArray[np.bool_], choices: int) -> Effect:
    """Return the effect of a choice; `chosen` are indices."""
    if choices < 2:
        return _effect(np.zeros((len(chosen), 0)), np.ones(0), has)
    columns = np.column_stack([np.ones(choices), np.eye(choices)[:, :-1]])
    q, _ = np.linalg.qr(columns)
    contrasts = q[:, 1:] * np.sqrt(choices)
    return _effect(contrasts[chosen], np.ones(choices - 1), has)


def _effect(columns: Floats, weights: Floats, has: NDArray[np.bool_]) -> Effect:
    columns = np.where(has[:, None], columns * np.sqrt(weights), 0.0)
    return Effect(columns, weights, float(has.mean()) if len(has) else 0.0)


def decompose(z: Floats, effects: Sequence[Effect], spread: Floats | None = None) -> Decomposition:
    """Return the variances; `spread` is s_i, the standard deviation of an estimated score (default: 0)."""
    groups = np.repeat(np.arange(len(effects)), [len(effect.weights) for effect in effects])
    total = float(np.var(z))
    if not len(groups) or total <= 0:
        return Decomposition(np.zeros(len(effects)), total)
    columns = np.column_stack([effect.columns for effect in effects])
    scale = np.concatenate([effect.weights for effect in effects])
    extra = np.zeros(len(z)) if spread is None else spread**2
    shares = np.array([effect.share for effect in effects])
    most = total / np.maximum(np.bincount(groups, scale, len(effects)) * shares, SMALLEST)
    tau = np.minimum(total / len(effects), most)
    sigma = total / 2
    for _ in range(ROUNDS):
        before = np.append(tau, sigma)
        beta, variance, residual, weight = _posterior(z, columns, tau[groups], sigma, extra)
        used = np.bincount(groups, np.maximum(1.0 - variance / tau[groups], 0.0), len(tau))
        squares = np.bincount(groups, beta**2, len(tau))
        tau = np.where(used > 0, squares / np.maximum(used, SMALLEST), 0.0)
        tau = np.clip(tau, SMALLEST * total, most)
        freedom = max(float(weight.sum()) - 1.0 - float(used.sum()), 1.0)
        sigma = max(float(weight @ residual**2) / freedom, SMALLEST * total)
        if np.max(np.abs(np.append(tau, sigma) - before)) < TOLERANCE * total:
            break
    beta, variance, _, _ = _posterior(z, columns, tau[groups], sigma, extra)
    learned = np.maximum(1.0 - variance / tau[groups], 0.0)
    parts = np.bincount(groups, scale * (beta**2 + variance * learned), len(tau)) * shares
    return Decomposition(parts, sigma)


def _posterior(
    z: Floats, columns: Floats, tau: Floats, sigma: float, extra: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the mean and the variances of the coefficients, the residuals, and the trials' weights.

    A weight is σ²/(σ² + s²): 1 for a complete trial. The constant μ has no prior.
    """
    weight = sigma / (sigma + extra)
    mean = weight @ columns / weight.sum()
    centred, target = columns - mean, z - float(weight @ z / weight.sum())
    precision = (centred.T * weight) @ centred / sigma
    precision[np.diag_indices_from(precision)] += 1.0 / tau
    covariance = np.linalg.inv(precision)
    beta = covariance @ (centred.T @ (weight * target)) / sigma
    return beta, np.diag(covariance).copy(), target - centred @ beta, weight
