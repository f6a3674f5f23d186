"""Which configuration would be chosen at a moment of a search, with what was seen until then."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dmltune.search.engine_trial import EngineTrial
from dmltune.search.score_table import ScoreTable
from dmltune.search.winners import leader

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
    found = leader(ScoreTable.of(then.values()))
    others = [trial for trial in then.values() if trial.state != "complete" and trial.is_point]
    ahead = max(others, key=_best, default=None)
    if found is None:
        return dict(ahead.values) if ahead else None
    winner, noise = found
    scores = [trial.best for trial in then.values() if trial.configuration == winner]
    known = [score for score in scores if score is not None]
    level = max(known, default=0.0) if noise is None else sum(known) / len(known)
    if ahead is not None and ahead.best is not None and ahead.best > level + 2 * (noise or 0.0):
        return dict(ahead.values)
    return dict(trials[winner].values)


def _best(trial: EngineTrial) -> float:
    return -math.inf if trial.best is None else trial.best
