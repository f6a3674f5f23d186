"""Estimates of the final score of trials that were stopped, are paused or still run.

Notation: x_t is a trial's best score up to stage t; a stage is the step of a validation. From the trials that
have both x_t and x_{t+1} a line is fitted,

    x_{t+1} = mean_{t+1} + b_t (x_t − mean_t) + residual of variance s_t²,

with the slope b_t shrunk towards 1 (the same order and the mean gain). An unfinished trial follows the lines
from its last stage to the last stage of all; its variance grows by s_t² at each. That only the better trials
reach stage t+1 is no bias, because they were chosen by x_t, on which the line conditions.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dmltune.search.engine_trial import EngineTrial
from dmltune.search.validations import Validations

Floats = NDArray[np.float64]

TRIALS = 1000  # the latest; the lines are fitted to no more
STAGES = 30
PRIOR_TRIALS = 2.0  # weight of the prior of a slope and of a variance, in trials
SLOPES = (0.0, 5.0)
OUTLIER = 5.0  # scores below median − 5 (best − median) are moved there before a fit


@dataclass(frozen=True, slots=True)
class Estimate:
    """What the final score of a trial is or will probably be."""

    mean: float
    sd: float


@dataclass(frozen=True, slots=True)
class _Line:
    """The step from one stage to the next."""

    mean_before: float
    mean_after: float
    slope: float
    variance: float  # of a residual
    count: float  # trials in the fit
    squares: float  # Σ (x − mean_before)² with its prior

    def follow(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        """Return the moments at the next stage. The best score so far never falls."""
        offset = mean - self.mean_before
        after = np.maximum(self.mean_after + self.slope * offset, mean)
        spread = 1.0 + 1.0 / max(self.count, 1.0) + offset**2 / self.squares if self.squares else 1.0
        return after, self.slope**2 * variance + self.variance * spread


def final_estimates(
    trials: Sequence[EngineTrial], noise: float, validations: Validations | None = None
) -> dict[int, Estimate]:
    """Return the estimates by trial number; a trial without a validation after step 0 has none.

    Complete trials have their score with the standard deviation `noise`. Failed trials, and those without a
    finite score, have the worst mean of all others: they count as bad and not as absent. Who asks for the
    same trials again and again keeps `validations`.
    """
    estimates: dict[int, Estimate] = {}
    bad: list[int] = []
    unfinished: list[EngineTrial] = []
    for trial in trials:
        best = trial.best
        validated = bool(trial.steps) and trial.steps[-1] > 0
        if trial.state == "failed" or (best is None and (validated or trial.state == "complete")):
            bad.append(trial.number)
        elif best is not None and (trial.state == "complete" or (validated and _diverged(trial))):
            estimates[trial.number] = Estimate(best, noise)
        elif validated:
            unfinished.append(trial)
    estimates |= _extrapolated(trials, unfinished, noise, validations or Validations())
    worst = min((estimate.mean for estimate in estimates.values()), default=None)
    if worst is not None:
        estimates |= {number: Estimate(worst, noise) for number in bad}
    return estimates


def _extrapolated(
    trials: Sequence[EngineTrial], unfinished: Sequence[EngineTrial], noise: float, validations: Validations
) -> dict[int, Estimate]:
    """Return the estimates of trials that are not complete, by the lines between stages."""
    if not unfinished:
        return {}
    known = [t for t in trials if t.state != "failed" and t.steps and t.steps[-1] > 0][-TRIALS:]
    steps, scores_TS = validations.of(known)
    columns = _stages(steps, unfinished)
    stages, scores_TS = np.array(steps, dtype=float)[columns], scores_TS[:, columns]
    lines = [_line(scores_TS[:, k], scores_TS[:, k + 1]) for k in range(len(stages) - 1)]
    last = np.array([trial.steps[-1] for trial in unfinished])
    positions = np.maximum(0, np.searchsorted(stages, last, side="right") - 1)
    mean = np.array([trial.best for trial in unfinished], dtype=float)
    mean = np.maximum(mean, np.array([_lowest(column) for column in scores_TS.T])[positions])
    variance = np.zeros(len(unfinished))
    for position, line in enumerate(lines):
        at = positions <= position
        mean[at], variance[at] = line.follow(mean[at], variance[at])
    if not any(trial.state == "complete" for trial in known):
        spread = float(np.nanstd(clipped(mean)))  # nothing is known of what is still to come
        variance += spread**2
    # by the lines a score far from those that went on says nothing; but it is known to be among the worst
    complete = [t.best for t in known if t.state == "complete" and t.best is not None]
    widest = np.var(clipped(np.array([*mean, *complete], dtype=float)))
    sd = np.sqrt((np.minimum(variance, widest) if complete else variance) + noise**2)
    return {
        trial.number: Estimate(float(m), float(s)) for trial, m, s in zip(unfinished, mean, sd, strict=True)
    }


def _line(before: Floats, after: Floats) -> _Line:
    """Fit the line from one stage to the next to the trials that have both."""
    both = np.isfinite(before) & np.isfinite(after)
    count = float(both.sum())
    if count == 0:
        finite = before[np.isfinite(before)]
        spread = float(np.std(clipped(finite))) if len(finite) else 0.0
        return _Line(0.0, 0.0, 1.0, spread**2, 0.0, 0.0)
    x, y = clipped(before[both]), clipped(after[both])
    mean_x, mean_y = float(x.mean()), float(y.mean())
    offset, gain = x - mean_x, y - x
    prior_square = float(np.var(x))
    squares = float(offset @ offset) + PRIOR_TRIALS * prior_square
    slope = 1.0 + float(offset @ (gain - gain.mean())) / squares if squares > 0 else 1.0
    slope = min(max(slope, SLOPES[0]), SLOPES[1])
    residual = y - mean_y - slope * offset
    few = 1.0 if count < 3 else 0.05  # one or two gains say little about their variance
    prior_variance = float(np.var(gain)) + few * float(np.mean(gain)) ** 2 + 0.01 * prior_square
    # two degrees of freedom are spent on the line, and the prior counts as two trials
    variance = (float(residual @ residual) + PRIOR_TRIALS * prior_variance) / max(count, PRIOR_TRIALS)
    return _Line(mean_x, mean_y, slope, variance, count, squares)


def clipped(scores: Floats) -> Floats:
    """Return the scores with very bad ones moved up to median − 5 (best − median)."""
    if len(scores) < 3:
        return scores
    median, best = float(np.median(scores)), float(np.max(scores))
    return np.maximum(scores, median - OUTLIER * (best - median)) if best > median else scores


def _lowest(scores: Floats) -> float:
    """Return the lowest score that is no outlier."""
    finite = scores[np.isfinite(scores)]
    return float(clipped(finite).min()) if len(finite) else -math.inf


def _stages(steps: Sequence[int], unfinished: Sequence[EngineTrial]) -> list[int]:
    """Return the places of the steps between which lines are fitted: where most ended, and others evenly."""
    if len(steps) <= STAGES:
        return list(range(len(steps)))
    place = {step: index for index, step in enumerate(steps)}
    ends = Counter(trial.steps[-1] for trial in unfinished if trial.steps[-1] in place)
    chosen = {place[step] for step, _ in ends.most_common(STAGES // 2)}
    even = np.linspace(0, len(steps) - 1, STAGES - len(chosen)).round().astype(int)
    return sorted(chosen | set(even.tolist()))


def _diverged(trial: EngineTrial) -> bool:
    """Whether the last score is not finite: the trial will not improve on its best one."""
    return not math.isfinite(trial.scores[-1])
