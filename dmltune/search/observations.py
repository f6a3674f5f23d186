"""What the sampler is told of the trials: a score for each point, and how sure it is.

A stopped trial enters with an estimate of its final score, a failed one with a bad score, and a repeated
configuration with the mean of its scores.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from optuna.trial import FrozenTrial, TrialState, create_trial

from dmltune.experiment.space.search_space import SearchSpace
from dmltune.search.cheap_estimates import cheap_only, estimates_of_cheap
from dmltune.search.earlier import EarlierPoint, moved
from dmltune.search.engine_trial import EngineTrial
from dmltune.search.extrapolation import Estimate, Floats, clipped, final_estimates
from dmltune.search.front import costs_of
from dmltune.search.sampling import distribution
from dmltune.search.scalarisation import scalarised
from dmltune.search.validations import Validations

MOST = 1000  # trials that a sampler reads: the best and the latest
UNKNOWN_NOISE = 0.1  # of the spread of the complete scores, as long as nothing was repeated


def noise_of(trials: Iterable[EngineTrial]) -> float | None:
    """Return the pooled standard deviation of repeated configurations; None when none was repeated."""
    trials = list(trials)
    repeated = {trial.repeats for trial in trials if trial.repeats is not None}
    if not repeated:
        return None
    groups: dict[int, list[float]] = {}
    for trial in trials:
        known = trial.repeats is not None or trial.number in repeated
        if known and trial.score is not None:
            groups.setdefault(trial.configuration, []).append(trial.score)
    squares = sum(statistics.variance(g) * (len(g) - 1) for g in groups.values() if len(g) > 1)
    freedom = sum(len(group) - 1 for group in groups.values())
    return math.sqrt(squares / freedom) if freedom else None


class Observations:
    """Optuna's form of the trials of one space.

    A proposal costs the same after many trials as after a thousand: what was said of a trial is made once
    and carries each time's estimate, and of all trials only those are gone through that are new.
    """

    def __init__(self, space: SearchSpace) -> None:
        self._space = space
        self._forget()

    def _forget(self) -> None:
        self._told: dict[int, FrozenTrial] = {}
        self._validations = Validations()
        self._entered: list[EngineTrial] = []
        self._points: list[EngineTrial] = []
        self._compared: dict[int, EngineTrial] = {}  # repetitions and what they repeat
        self._cheap = False
        self._best: list[tuple[float, int]] = []  # of older points that have ended: (−score, place)
        self._open: list[int] = []  # places of older points that had not ended
        self._older = 0  # points that are in one of both

    def of(
        self,
        trials: Sequence[EngineTrial],
        earlier: Sequence[EarlierPoint] = (),
        against: Sequence[str] = (),
        weights: Floats | None = None,
    ) -> list[FrozenTrial]:
        """Return the points; a higher value is better, and `estimate_sd` is its error.

        With `weights` for the score and the costs `against` it, a value is that of scalarisation.py. What is
        returned is valid until the next call.
        """
        self._enter(trials)
        considered = self._considered(self._points)
        compared = [trial for _, trial in sorted(self._compared.items())]
        noise = noise_of(compared)
        if noise is None:
            scores = [trial.score for trial in considered if trial.score is not None]
            noise = (
                UNKNOWN_NOISE * float(np.std(clipped(np.array(scores)), ddof=1)) if len(scores) > 1 else 0.0
            )
        estimates = final_estimates(considered, noise, self._validations)
        for number, (mean, count) in _means_of_repeated(compared).items():
            if number in estimates:
                estimates[number] = Estimate(mean, noise / math.sqrt(count))
        if self._cheap:
            estimates |= estimates_of_cheap(trials, estimates, noise)
            considered = [*considered, *cheap_only(trials)]
        if weights is not None:
            known_costs = {t.number: costs for t in considered if (costs := costs_of(t, against)) is not None}
            estimates = scalarised(estimates, known_costs, weights)
        told = [self._say(trial, estimates.get(trial.number)) for trial in considered]
        if earlier and weights is None:  # nothing is known of the costs of earlier points
            known = [estimates[trial.number].mean for trial in considered if trial.number in estimates]
            told = [*self._told_earlier(earlier, known), *told]
        for place, each in enumerate(told):
            each.number = each._trial_id = place
        if len(self._told) > 2 * MOST:  # memory and garbage collection would grow with all trials
            self._told = {trial.number: self._told[trial.number] for trial in considered}
        return told

    def _enter(self, trials: Sequence[EngineTrial]) -> None:
        """Sort in the trials that are new; all of them when they are others than before."""
        count = len(self._entered)
        if count > len(trials) or (count and trials[count - 1] is not self._entered[-1]):
            self._forget()
            count = 0
        new = trials[count:]
        for trial in new:
            self._entered.append(trial)
            if trial.role in ("search", "reference"):
                self._points.append(trial)
            self._cheap |= trial.role == "cheap"
        if repeats := {trial.number: trial for trial in new if trial.repeats is not None}:
            repeated = {trial.repeats for trial in repeats.values()}
            self._compared |= repeats | {each.number: each for each in trials if each.number in repeated}

    def _considered(self, points: list[EngineTrial]) -> list[EngineTrial]:
        """Return the points of which the sampler learns: the best and the latest, in their order."""
        if len(points) <= MOST:
            return points
        first_latest = len(points) - MOST // 2
        waiting = [*self._open, *range(self._older, first_latest)]
        self._open, self._older = [place for place in waiting if not _has_ended(points[place])], first_latest
        ended = [(_rank(points[place]), place) for place in waiting if _has_ended(points[place])]
        # what is not among the best once never will be: a point that has ended keeps its score
        self._best = sorted([*self._best, *ended])[: MOST - MOST // 2]
        open_ = [(_rank(points[place]), place) for place in self._open]
        best = sorted([*self._best, *open_])[: MOST - MOST // 2]
        return [*(points[place] for place in sorted(place for _, place in best)), *points[first_latest:]]

    def _say(self, trial: EngineTrial, estimate: Estimate | None) -> FrozenTrial:
        told = self._told.get(trial.number)
        if told is None:
            told = self._told[trial.number] = _point(self._space, trial)
        stopped = trial.state in ("pruned", "paused") or trial.role == "cheap"
        return _with_value(told, estimate, {"stopped": stopped}, trial.state == "running")

    def _told_earlier(self, earlier: Sequence[EarlierPoint], known: Sequence[float]) -> list[FrozenTrial]:
        return [
            _with_value(_point(self._space, EngineTrial(-1, "search", point.values)), Estimate(score, error))
            for point, score, error in moved(earlier, known)
        ]


def _has_ended(trial: EngineTrial) -> bool:
    return trial.state in ("complete", "pruned", "failed")


def _rank(trial: EngineTrial) -> float:
    """Return what sorts the trials, the best first."""
    return -max(trial.scores, default=-math.inf)


def _means_of_repeated(trials: Sequence[EngineTrial]) -> dict[int, tuple[float, int]]:
    """Return mean and number of the scores of each configuration that has several.

    A score counts as its difference to the mean of its seed and fold, so that a configuration is not better
    for having been repeated on an easier fold.
    """
    if all(trial.repeats is None for trial in trials):
        return {}
    complete = [trial for trial in trials if trial.score is not None and trial.role != "baseline"]
    own: dict[int, dict[tuple[int, int], float]] = {}
    for trial in complete:
        own.setdefault(trial.configuration, {})[trial.block] = trial.score or 0.0
    first = {number: next(iter(scores)) for number, scores in own.items()}
    shifts: dict[tuple[int, int], list[float]] = {}
    for number, scores in own.items():
        for block, score in scores.items():
            shifts.setdefault(block, []).append(score - scores[first[number]])
    effect = {block: statistics.fmean(differences) for block, differences in shifts.items()}
    return {
        number: (statistics.fmean(score - effect[block] for block, score in scores.items()), len(scores))
        for number, scores in own.items()
        if len(scores) > 1
    }


def _with_value(
    told: FrozenTrial,
    estimate: Estimate | None,
    attributes: dict[str, Any] | None = None,
    running: bool = False,
) -> FrozenTrial:
    """Return the trial with the estimate; it is complete unless it runs."""
    known = estimate is not None and not running
    told.state = TrialState.COMPLETE if known else TrialState.RUNNING
    told.values = [estimate.mean] if known and estimate else None
    told.user_attrs = attributes or {}
    if estimate is not None:
        told.user_attrs |= {"estimate": estimate.mean, "estimate_sd": estimate.sd}
    return told


def _point(space: SearchSpace, trial: EngineTrial) -> FrozenTrial:
    """Return the point as a running trial, without a value."""
    ranges = [each for each in space.applicable(trial.values) if each.name in trial.values]
    return create_trial(
        state=TrialState.RUNNING,
        params={each.label: trial.values[each.name] for each in ranges},
        distributions={each.label: distribution(each) for each in ranges},
        system_attrs=dict(trial.attributes),
    )
