"""Which configuration would be chosen at a moment of a search, with what was seen until then."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dmltune.search.engine_trial import EngineTrial
from dmltune.search.score_table import ScoreTable
from dmltune.search.winners import judge

Seen = tuple[float, int, int, float]  # time, trial, step, score (higher is better)


def chosen_after(seen: Sequence[Seen], trials: Mapping[int, EngineTrial]) -> dict[str, Any] | None:
    """Return the values of the best configuration; None when nothing was seen.

    The best complete one, unless a trial that is not complete is better already.
    """
    then: dict[int, EngineTrial] = {}
    for _, number, step, score in seen:
        trial = trials[number]
        if number not in then:
            then[number] = EngineTrial(
                number, trial.role, trial.values, trial.seed, trial.fold, trial.repeats
            )
        then[number].add(step, score)
        if trial.state == "complete" and len(then[number].steps) == len(trial.steps):
            then[number].state = "complete"
    verdict = judge(ScoreTable.of(then.values()))
    others = [trial for trial in then.values() if trial.state != "complete" and trial.is_point]
    leader = max(others, key=_best, default=None)
    if verdict is None:
        return dict(leader.values) if leader else None
    scores = [trial.best for trial in then.values() if trial.configuration == verdict.winner]
    known = [score for score in scores if score is not None]
    level = max(known, default=0.0) if verdict.noise is None else sum(known) / len(known)
    if leader is not None and leader.best is not None and leader.best > level + 2 * (verdict.noise or 0.0):
        return dict(leader.values)
    return dict(trials[verdict.winner].values)


def _best(trial: EngineTrial) -> float:
    return -math.inf if trial.best is None else trial.best
