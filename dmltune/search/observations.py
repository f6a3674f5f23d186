"""What the sampler is told of the trials: a score for each point, and how sure it is.

A stopped trial enters with an estimate of its final score, a failed one with a bad score, and a repeated
configuration with the mean of its scores.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from optuna.trial import FrozenTrial, TrialState, create_trial

from dmltune.experiment.space.search_space import SearchSpace
from dmltune.search.earlier import EarlierPoint, moved
from dmltune.search.engine_trial import EngineTrial
from dmltune.search.extrapolation import Estimate, final_estimates
from dmltune.search.sampling import distribution

MOST = 1000  # trials that a sampler reads: the best and the latest
UNKNOWN_NOISE = 0.1  # of the spread of the complete scores, as long as nothing was repeated


def noise_of(trials: Iterable[EngineTrial]) -> float | None:
    """Return the pooled standard deviation of repeated configurations; None when none was repeated."""
    groups: dict[int, list[float]] = {}
    for trial in trials:
        if trial.score is not None:
            groups.setdefault(trial.configuration, []).append(trial.score)
    squares = sum(statistics.variance(g) * (len(g) - 1) for g in groups.values() if len(g) > 1)
    freedom = sum(len(group) - 1 for group in groups.values())
    return math.sqrt(squares / freedom) if freedom else None


def observed(
    space: SearchSpace, trials: Sequence[EngineTrial], earlier: Sequence[EarlierPoint] = ()
) -> list[FrozenTrial]:
    """Return the points as Optuna's trials; a higher value is better, and `estimate_sd` is its error."""
    points = [trial for trial in trials if trial.is_point]
    noise = noise_of(trials)
    if noise is None:
        scores = [trial.score for trial in points if trial.score is not None]
        noise = UNKNOWN_NOISE * statistics.stdev(scores) if len(scores) > 1 else 0.0
    considered = _considered(points)
    estimates = final_estimates(considered, noise)
    repeated = _means_of_repeated(trials)
    for number, (mean, count) in repeated.items():
        if number in estimates:
            estimates[number] = Estimate(mean, noise / math.sqrt(count))
    own = [_frozen(space, trial, estimates.get(trial.number)) for trial in considered]
    if not earlier:
        return own
    known = [estimates[trial.number].mean for trial in considered if trial.number in estimates]
    told = [
        _frozen(space, EngineTrial(-1, "search", point.values, state="complete"), Estimate(score, error))
        for point, score, error in moved(earlier, known)
    ]
    return [*told, *own]


def _considered(points: list[EngineTrial]) -> list[EngineTrial]:
    if len(points) <= MOST:
        return points
    best = sorted(points, key=lambda trial: -math.inf if trial.best is None else trial.best, reverse=True)
    chosen = {trial.number for trial in (*best[: MOST // 2], *points[-MOST // 2 :])}
    return [trial for trial in points if trial.number in chosen]


def _means_of_repeated(trials: Sequence[EngineTrial]) -> dict[int, tuple[float, int]]:
    """Return mean and number of the scores of each configuration that has several.

    A score counts as its difference to the mean of its seed and fold, so that a configuration is not better
    for having been repeated on an easier fold.
    """
    complete = [trial for trial in trials if trial.score is not None and trial.role != "baseline"]
    if all(trial.repeats is None for trial in complete):
        return {}
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


def _frozen(space: SearchSpace, trial: EngineTrial, estimate: Estimate | None) -> FrozenTrial:
    ranges = [each for each in space.applicable(trial.values) if each.name in trial.values]
    running = trial.state == "running" or estimate is None
    told = {} if estimate is None else {"estimate": estimate.mean, "estimate_sd": estimate.sd}
    return create_trial(
        state=TrialState.RUNNING if running else TrialState.COMPLETE,
        value=None if running or estimate is None else estimate.mean,
        params={each.label: trial.values[each.name] for each in ranges},
        distributions={each.label: distribution(each) for each in ranges},
        user_attrs=told,
        system_attrs=dict(trial.attributes),
    )
