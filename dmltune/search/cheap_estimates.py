"""Estimates of the full score of points that were trained at the lower fidelity alone.

From the points that were trained both ways a line is fitted, full = a + b · cheap + residual of variance s²,
with b shrunk towards sd(full)/sd(cheap), which maps ranks to ranks. Which points were trained in full was
decided by their cheap scores, on which the line conditions, so the selection is no bias.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from dmltune.search.engine_trial import EngineTrial
from dmltune.search.extrapolation import Estimate, clipped
from dmltune.search.screening import Key, key_of, score_of

PRIOR_PAIRS = 2.0  # weight of the prior of the slope and of the variance
PRIOR_UNEXPLAINED = 0.25  # share of the variance of full scores
FEWEST = 3


def cheap_only(trials: Sequence[EngineTrial]) -> list[EngineTrial]:
    """Return the cheap trials whose points were not begun in full."""
    begun = {key_of(trial.values) for trial in trials if trial.is_point}
    return [trial for trial in trials if trial.role == "cheap" and key_of(trial.values) not in begun]


def estimates_of_cheap(
    trials: Sequence[EngineTrial], full: Mapping[int, Estimate], noise: float
) -> dict[int, Estimate]:
    """Return the estimates of cheap trials without a full training, by number. `full` are those of points.

    A failed one counts as the worst of all, and one that still runs has none.
    """
    own = cheap_only(trials)
    if not own or not full:
        return {}
    points: dict[Key, Estimate] = {
        key_of(t.values): full[t.number] for t in trials if t.is_point and t.number in full
    }
    pairs = [
        (score_of(trial), points[key_of(trial.values)].mean)
        for trial in trials
        if trial.role == "cheap" and score_of(trial) > -math.inf and key_of(trial.values) in points
    ]
    worst = Estimate(min(estimate.mean for estimate in full.values()), noise)
    found = {trial.number: worst for trial in own if trial.state == "failed"}
    scored = [trial for trial in own if score_of(trial) > -math.inf]
    if len(pairs) < FEWEST or not scored:
        return found
    x, y = clipped(np.array([pair[0] for pair in pairs])), clipped(np.array([pair[1] for pair in pairs]))
    count, offset = len(x), x - x.mean()
    squares = float(offset @ offset) + PRIOR_PAIRS * float(x.var())
    ratio = float(y.std() / x.std()) if x.std() > 0 else 0.0
    slope = float(offset @ (y - y.mean())) + PRIOR_PAIRS * float(x.var()) * ratio
    slope = max(slope / squares, 0.0) if squares > 0 else 0.0
    residual = y - y.mean() - slope * offset
    variance = float(residual @ residual) + PRIOR_PAIRS * PRIOR_UNEXPLAINED * float(y.var())
    variance /= count  # two degrees of freedom are spent on the line, and the prior counts as two pairs
    for trial in scored:
        far = max(score_of(trial), float(x.min())) - float(x.mean())
        spread = 1 + 1 / count + (far**2 / squares if squares > 0 else 0.0)
        found[trial.number] = Estimate(float(y.mean()) + slope * far, math.sqrt(variance * spread + noise**2))
    return found
