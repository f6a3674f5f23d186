"""A search by the engine alone, one trial at a time, that may be built again after every trial."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from dmltune.search.engine import END, Continue, Engine, Start
from dmltune.search.engine_trial import EngineTrial

Make = Callable[[Mapping[str, Any]], Engine]  # from what the sampler has stored
Scores = Callable[[EngineTrial], list[float]]


def run(
    make: Make, scores_of: Scores, cut: bool, prepare: Callable[[Engine, EngineTrial], None]
) -> list[Any]:
    """Return what all trials were; with `cut` the engine is made anew from its trials after each of them."""
    engine = make({})
    while (found := engine.next()) != END:
        assert isinstance(found, Start | Continue)
        trial = (
            engine.trials[found.number] if isinstance(found, Continue) else _started(engine, found, prepare)
        )
        scores, decision = scores_of(trial), "continue"
        while decision == "continue" and (step := len(trial.steps)) < len(scores):
            decision = engine.report(trial.number, step + 1, scores[step])
        ended = len(trial.steps) == len(scores)
        engine.end(trial.number, "complete" if ended else "pruned" if decision == "stop" else "paused")
        if cut:
            old, engine = engine, make(engine.attributes)
            for each in copy.deepcopy(list(old.trials.values())):
                engine.add(each)
    return [(each.role, each.values, each.state, each.scores) for each in engine.trials.values()]


def _started(engine: Engine, found: Start, prepare: Callable[[Engine, EngineTrial], None]) -> EngineTrial:
    number, values = len(engine.trials), dict(found.proposal.values)
    trial = EngineTrial(
        number, found.role, values, found.seed, found.fold, found.repeats,
        attributes=found.proposal.trial_attributes,
    )  # fmt: skip
    engine.add(trial)
    prepare(engine, trial)
    return trial
