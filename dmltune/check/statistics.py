"""One configuration: mean ± interval over folds and seeds; the bias of a chosen score.

M models of one configuration: score_m = μ + fold_f(m) + seed_m, folds and seeds drawn at random. Every fold
has seeds of its own: a seed's effect on all folds (its first weights) would narrow the interval. The estimate
is the plain mean. Its standard error depends on whether folds have an effect, which four folds cannot decide.

    W   mean square within folds    = σ_seed²,                        M − F degrees of freedom
    B   mean square between folds   = σ_seed² + R σ_fold²,            F − 1 degrees of freedom

B alone is right for any fold variance, with few degrees of freedom; pooling B and W is right only without an
effect of folds. The weight of the pooled variance falls with the evidence for folds (p-value of B/W). It is
limited so that seeds add no more degrees of freedom than folds have.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from dmltune.errors import UserError

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
MIN_POINTS, MAX_POINTS = 80, 400  # of g in best_of_n
ROUNDS = 100  # more make g spikier, and the correction no better


@dataclass(frozen=True)
class Interval:
    """`low` and `high` are NaN for one model; `sd` is that of single models."""

    mean: float
    low: float
    high: float
    sd: float
    df: float


@dataclass(frozen=True)
class MeanVariance:
    """Squared standard error of a mean with its degrees of freedom; NaN: not measurable."""

    variance: float
    df: float
    fold_sd: float  # NaN with one fold or one repeat
    seed_sd: float  # NaN with one repeat


def mean_interval(scores_M: npt.ArrayLike, fold_M: npt.ArrayLike, level: float = 0.95) -> Interval:
    """Return mean ± t_df · standard error.

    With one fold the interval is about other seeds on this fold alone. With one model it is NaN.
    """
    scores_M, fold_M = models_of(scores_M, fold_M)
    mean = float(scores_M.mean())
    error = variance_of_mean(scores_M, fold_M)
    half = half_width(error.variance, error.df, level)
    sd = float(scores_M.std(ddof=1)) if len(scores_M) > 1 else math.nan
    return Interval(mean, mean - half, mean + half, sd, error.df)


def variance_of_mean(scores_M: Floats, fold_M: Integers) -> MeanVariance:
    """Return Var(mean) = w · pooled + (1 − w) · between, with df = df_between + w (M − F).

    w = p(B/W) · (F − 2) / ((F − 1)(R − 1)): none for two folds, at most (F − 1) − 1/(F − 1) more degrees of
    freedom.
    """
    models, repeats = len(scores_M), len(scores_M) / len(np.unique(fold_M))
    deviation_M = scores_M - scores_M.mean()
    if models == 1:
        return MeanVariance(math.nan, 0.0, math.nan, math.nan)
    pooled = float(deviation_M @ deviation_M) / (models - 1) / models
    _, index_M, count_F = np.unique(fold_M, return_inverse=True, return_counts=True)
    folds = len(count_F)
    if folds == 1:
        return MeanVariance(pooled, models - 1.0, math.nan, math.sqrt(pooled * models))
    residual_F = np.bincount(index_M, deviation_M) / count_F
    between, df = cluster_variance(count_F / models, residual_F)
    if models == folds:
        return MeanVariance(between, df, math.nan, math.nan)

    within_M = deviation_M - residual_F[index_M]
    within_ms = float(within_M @ within_M) / (models - folds)
    between_ms = float(count_F @ residual_F**2) / (folds - 1)
    models_per_fold = (models - float(count_F @ count_F) / models) / (folds - 1)
    fold_sd = math.sqrt(max(0.0, between_ms - within_ms) / models_per_fold)
    p = float(stats.f.sf(between_ms / within_ms, folds - 1, models - folds)) if within_ms > 0 else 0.0
    weight = p * (folds - 2) / ((folds - 1) * max(1.0, repeats - 1))
    return MeanVariance(
        weight * pooled + (1 - weight) * between,
        df + weight * (models - folds),
        fold_sd,
        math.sqrt(within_ms),
    )


def cluster_variance(weight_G: Floats, residual_G: Floats) -> tuple[float, float]:
    """Return variance and degrees of freedom of Σ_g w_g x_g from residuals x_g − Σ w x.

    Weights sum to one. V = Σ w_g² r_g² · Σ w² / Σ w_g² h_g with h_g = 1 − 2 w_g + Σ w², unbiased for groups
    of equal variance.
    df = (tr A)² / tr A² with A = W² R Rᵀ, R = I − 1wᵀ (Satterthwaite; Bell & McCaffrey 2002). Equal weights:
    G − 1.
    """
    if len(weight_G) < 2:
        return math.nan, 0.0
    a_G = weight_G**2
    total = float(a_G.sum())
    h_G = 1 - 2 * weight_G + total
    trace = float(a_G @ h_G)
    # Σ_gk a_g a_k (total − w_g − w_k)² expanded in moments, its diagonal replaced by a_g² h_g²
    m0, m1, m2 = total, float(a_G @ weight_G), float(a_G @ weight_G**2)
    everywhere = total**2 * m0**2 - 4 * total * m0 * m1 + 2 * m0 * m2 + 2 * m1**2
    diagonal = float((a_G**2) @ (h_G**2 - (total - 2 * weight_G) ** 2))
    return float(a_G @ residual_G**2) * total / trace, trace**2 / (everywhere + diagonal)


def half_width(variance: float, df: float, level: float) -> float:
    """Return t_{df, (1 + level)/2} · √variance; NaN for an unknown variance."""
    if math.isnan(variance):
        return math.nan
    return float(stats.t.ppf((1 + level) / 2, df)) * math.sqrt(variance) if variance > 0 else 0.0


def p_value(difference: float, variance: float, df: float) -> float:
    """Return Student's two-sided p; 1 without a difference, NaN for an unknown variance."""
    if difference == 0:
        return 1.0
    if math.isnan(variance):
        return math.nan
    return float(2 * stats.t.sf(abs(difference) / math.sqrt(variance), df)) if variance > 0 else 0.0


def models_of(scores_M: npt.ArrayLike, fold_M: npt.ArrayLike) -> tuple[Floats, Integers]:
    """Return both as arrays of one length; callers leave out models without a score."""
    scores, folds = np.asarray(scores_M, dtype=np.float64), np.asarray(fold_M, dtype=np.int64)
    if scores.ndim != 1 or scores.shape != folds.shape or not len(scores):
        raise UserError(
            f"every model needs one score and one fold; got shapes {scores.shape} and {folds.shape}"
        )
    if not np.isfinite(scores).all():
        raise UserError("every score must be a number; got NaN or infinity. Leave out the models that failed")
    return scores, folds


@dataclass(frozen=True)
class Corrected:
    """A chosen trial's observed score, and the expected one; bias = their difference."""

    observed: float
    corrected: float
    bias: float
    noise_sd: float
    n: int


def best_of_n(scores_N: npt.ArrayLike, noise_sd: float, chosen: int) -> Corrected:
    """Return E[true score of the chosen trial | all scores], with fitted true scores g.

    score_i = t_i + noise_i, noise normal, independent, of one known sd; t_i drawn from any g on the scores'
    range. g is fitted by expectation maximisation (Kiefer & Wolfowitz 1956): with a normal g a tail of bad
    trials would hide how close together the good ones are. Trials without a score are left out.
    """
    all_scores = np.asarray(scores_N, dtype=np.float64)
    observed, noise = float(all_scores[chosen]), float(noise_sd)
    if not math.isfinite(observed) or not (math.isfinite(noise) and noise >= 0):
        raise UserError(
            f"the chosen trial's score and the noise must be numbers; got {observed} and {noise}. "
            "Choose a finished trial, and measure the noise with at least two models"
        )
    finite_N = np.isfinite(all_scores)
    position = int(finite_N[: chosen % len(all_scores)].sum())
    corrected = _posterior_mean(all_scores[finite_N], noise, position)
    return Corrected(observed, corrected, observed - corrected, noise, int(finite_N.sum()))


def _posterior_mean(score_N: Floats, noise_sd: float, chosen: int) -> float:
    low, high = float(score_N.min()), float(score_N.max())
    if noise_sd == 0 or low == high:
        return float(score_N[chosen])
    points = int(min(MAX_POINTS, max(MIN_POINTS, 4 * (high - low) / noise_sd)))
    true_G = np.linspace(low, high, points)
    exponent_NG = -0.5 * ((score_N[:, None] - true_G) / noise_sd) ** 2
    likelihood_NG = np.exp(exponent_NG - exponent_NG.max(axis=1, keepdims=True))
    count_N = np.ones(len(score_N))
    # The chosen score takes part in the fit of g. With weight 1 only 77 % of its bias was removed where all
    # trials are equal; with weight 0.6, 140 % where they differ much (simulated). So its weight falls with
    # the share of the variance that noise explains.
    count_N[chosen] = 1 - 0.5 * min(1.0, noise_sd**2 / float(score_N.var(ddof=1)))
    g_G = np.full(points, 1 / points)
    for _ in range(ROUNDS):
        posterior_NG = likelihood_NG * g_G
        posterior_NG /= posterior_NG.sum(axis=1, keepdims=True)
        g_G = count_N @ posterior_NG / count_N.sum()
    posterior_G = likelihood_NG[chosen] * g_G
    return float(posterior_G @ true_G / posterior_G.sum())
