"""A trial of the study as what is shown (TrialRecord) and as what the engine knows (EngineTrial)."""

from __future__ import annotations

import math
from collections.abc import Mapping

from optuna.trial import FrozenTrial, TrialState

from dmltune.search.engine_trial import EngineState, EngineTrial
from dmltune.search.sampling import values_of
from dmltune.search.state import TrialRecord
from dmltune.search.state import TrialState as RecordState

PAUSED = "paused"  # user attribute of a trial that waits for its promotion; it is RUNNING in the study
COSTS = "costs"  # user attribute: what the model of a trial costs, as `objective.against` names it
CHEAP_SCORE = "cheap_score"  # user attribute of a complete cheap trial, which is PRUNED in the study
PROJECTIONS = "projections"  # user attribute: how many projections had ended, by step
STATES: dict[TrialState, RecordState] = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "interrupted",
}
STUDY_STATES = {state: study_state for study_state, state in STATES.items()}
_ENGINE_STATES: dict[TrialState, EngineState] = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
}


def record_of(trial: FrozenTrial, mode: str) -> TrialRecord:
    scores = trial.intermediate_values
    best = (max if mode == "max" else min)(scores.values(), default=None)
    last = max(scores, default=0)
    attributes = trial.user_attrs
    return TrialRecord(
        number=trial.number,
        role=attributes.get("role", "search"),
        values=values_of(trial),
        state="paused" if is_paused(trial) else _state_of(trial),
        step=last,
        max_steps=int(attributes.get("max_steps", 0)),
        score=scores.get(last),
        best=trial.value if trial.value is not None else best,
        metrics=dict(attributes.get("metrics", {})),
        seconds=float(attributes.get("seconds", 0.0)),
        reason=str(attributes.get("reason", "")),
        run_id=str(attributes.get("run_id", "")),
        idle=dict(attributes.get("idle", {})),
        seed=attributes.get("seed"),
        fold=attributes.get("fold"),
        repeats=attributes.get("repeats"),
        costs=dict(attributes.get(COSTS, {})),
        best_step=min((step for step, score in scores.items() if score == best), default=None),
    )


def _state_of(trial: FrozenTrial) -> RecordState:
    """Return the state of a trial; a cheap one has no value in the study, where it would be the best."""
    cheap = trial.state == TrialState.PRUNED and CHEAP_SCORE in trial.user_attrs
    return "complete" if cheap else STATES.get(trial.state, "interrupted")


def is_paused(trial: FrozenTrial) -> bool:
    return trial.state == TrialState.RUNNING and bool(trial.user_attrs.get(PAUSED))


def engine_trial_of(trial: FrozenTrial, sign: int, seed: int, fold: int) -> EngineTrial:
    """Return the trial with its learning curve. `seed` and `fold` are those of the experiment.

    A repetition of a search of an older version is one of the reference point, which is trial 0.
    """
    attributes = trial.user_attrs
    role = attributes.get("role", "search")
    known = EngineTrial(
        number=trial.number,
        role=role,
        values=values_of(trial),
        seed=int(attributes.get("seed", seed)),
        fold=int(attributes.get("fold", fold)),
        repeats=attributes.get("repeats", 0 if role == "repeat" else None),
        state=_engine_state(trial),
        attributes=trial.system_attrs,
        costs=dict(attributes.get(COSTS, {})),
    )
    projections: Mapping[str, int] = attributes.get(PROJECTIONS, {})
    for step, score in sorted(trial.intermediate_values.items()):
        if math.isfinite(score):
            known.add(step, sign * score, int(projections.get(str(step), 0)))
    return known


def _engine_state(trial: FrozenTrial) -> EngineState:
    if is_paused(trial):
        return "paused"
    return "complete" if _state_of(trial) == "complete" else _ENGINE_STATES.get(trial.state, "running")


def ended_projections(metrics: Mapping[str, float]) -> int:
    """Return how many projections of CCP had ended; 0 for other references."""
    return max(0, int(metrics.get("projection", 1)) - 1)
