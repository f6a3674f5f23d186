"""The bias of a score that was chosen as the best of many."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dmltune.check.intervals import Floats
from dmltune.errors import UserError

MIN_POINTS, MAX_POINTS = 80, 400  # of g
ROUNDS = 100  # more make g spikier, and the correction no better


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
