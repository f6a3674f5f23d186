"""What further trials are expected to gain, for the stop rule "the expected gain is below the noise"."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import log_ndtr, ndtri

from dmltune.search.design import Floats

_ENOUGH = 10  # complete trials before the rule can stop a search


def expected_gain(
    best_mean: float, means: Sequence[float] | Floats, sds: Sequence[float] | Floats, draws: int = 1
) -> float:
    """Return E[max(0, max_i X_i − best_mean)] for independent X_i ~ N(means_i, sds_i²).

    Each X_i is drawn `draws` times: = ∫_0^∞ (1 − Π_i Φ((best_mean + x − means_i) / sds_i)^draws) dx
    """
    means_n, sds_n = np.asarray(means, dtype=float), np.asarray(sds, dtype=float)
    floor = max(best_mean, float(np.max(means_n[sds_n == 0], initial=-np.inf)))
    means_n, sds_n = means_n[sds_n > 0], sds_n[sds_n > 0]
    top = float(np.max(means_n + 10 * sds_n, initial=-np.inf))
    if draws < 1 or top <= floor:
        return floor - best_mean if draws > 0 else 0.0
    x = np.linspace(floor, top, 2001)
    log_none = draws * log_ndtr((x[:, None] - means_n) / sds_n).sum(axis=1)
    return floor - best_mean + float(np.trapezoid(-np.expm1(log_none), x))


def gain_is_noise(scores: Sequence[float], noise: float, remaining: int | None = None) -> bool:
    """Return whether further trials are expected to gain less than the noise of a score.

    `scores` are those of complete trials in their order, `remaining` is the number of trials that are left
    (as many as there were, if unknown). The scores of the later half tell what the sampler proposes now: the
    true means of new trials are N(m, τ²), fitted to the upper half of these scores less the noise.
    """
    if len(scores) < _ENOUGH or noise <= 0:
        return False
    mean, spread = tail(scores[len(scores) // 2 :])
    tau = float(np.sqrt(max(spread**2 - noise**2, 0.0)))
    # The best score is lucky: its expected true mean under the same population.
    best = max(scores)
    trust = tau**2 / (tau**2 + noise**2)
    best_mean = mean + trust * (best - mean)
    further = remaining if remaining is not None else len(scores)
    return expected_gain(best_mean, [mean], [tau], further) < noise


def tail(scores: Sequence[float]) -> tuple[float, float]:
    """Return the mean and standard deviation of the normal distribution that fits the upper half.

    A line through the upper half of the normal quantile plot.
    """
    ordered = np.sort(np.asarray(scores, dtype=float))
    n = len(ordered)
    quantiles = ndtri((np.arange(1, n + 1) - 0.375) / (n + 0.25))
    upper = slice(n // 2 if n >= 8 else 0, None)
    slope, intercept = np.polyfit(quantiles[upper], ordered[upper], 1)
    return float(intercept), float(max(slope, 0.0))
