"""What choosing the best of many adds to a score, and how many models a gap needs to be seen."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from dmltune.check.intervals import Floats
from dmltune.errors import UserError


@dataclass(frozen=True)
class Corrected:
    """A chosen trial's score as observed, and what to expect of a repetition; bias = their difference."""

    observed: float
    corrected: float
    bias: float
    noise_sd: float
    n: int


def best_of_n(scores_N: npt.ArrayLike, noise_sd: float, chosen: int) -> Corrected:
    """E[true score of the chosen trial | all observed scores], by empirical Bayes.

    Assumes score = true score + noise of the same sd in every trial (normal, independent), and that true
    scores come from one distribution, normal around the trials' mean (James–Stein).
    """
    scores_N = np.asarray(scores_N, dtype=np.float64)
    observed, scores = float(scores_N[chosen]), scores_N[np.isfinite(scores_N)]
    noise = max(0.0, float(noise_sd))
    if not math.isfinite(observed) or not math.isfinite(noise):
        raise UserError(
            "the chosen trial's score and the noise must be numbers; got NaN. Choose a finished trial"
        )
    shrink = _luck_share(scores, noise)
    corrected = observed - shrink * (observed - float(scores.mean()))
    return Corrected(observed, corrected, observed - corrected, noise, len(scores))


def _luck_share(scores_N: Floats, noise_sd: float) -> float:
    total = float(scores_N.var(ddof=1)) if len(scores_N) > 1 else 0.0
    return min(1.0, noise_sd**2 / total) if total > 0 else 0.0


def required_models(sd: float, gap: float, level: float = 0.95, power: float = 0.8) -> int:
    """The smallest number of model pairs with which a paired t test finds `gap` with probability `power`.

    `sd` is that of the difference of one pair. P(|T| > t_{n−1}) for T noncentral t, shift √n · gap/sd.
    """
    if not (gap > 0 and sd >= 0 and 0 < level < 1 and 0 < power < 1):
        raise UserError(
            f"gap must be > 0, sd ≥ 0, level and power between 0 and 1; got {gap}, {sd}, {level}, {power}"
        )
    few, many = 1, 2
    while not _found(many, sd, gap, level, power):
        few, many = many, many * 2
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if _found(middle, sd, gap, level, power) else (middle, many)
    return many


def _found(models: int, sd: float, gap: float, level: float, power: float) -> bool:
    if sd == 0:
        return True
    shift, critical = math.sqrt(models) * gap / sd, float(stats.t.ppf((1 + level) / 2, models - 1))
    if models > 1000:  # the noncentral t's tail is not computed reliably there, and normal to four digits
        return float(stats.norm.sf(critical - shift)) >= power
    if shift > 30:
        return shift > 2 * critical
    return float(stats.nct.sf(critical, models - 1, shift)) >= power
