"""Searches in a real study and a real MLflow store, written without a training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from dmltune import tags
from dmltune.experiment import Experiment, load_experiment
from dmltune.runs import TrackedRun
from dmltune.search.sampling import Proposal, as_template
from dmltune.search.study import Study
from dmltune.store import Store
from dmltune.tracking import Tracker
from dmltune.train.name_claim import claim_name

EXPERIMENT = load_experiment("glyphs-ccp")
REFERENCE = dict(EXPERIMENT.space.reference_point)


@dataclass(frozen=True)
class WrittenTrial:
    """`curve` has the score by step; `about` are further attributes, such as seed, fold and repeats."""

    role: str
    curve: Mapping[int, float]
    values: Mapping[str, Any] = field(default_factory=dict)
    state: TrialState = TrialState.COMPLETE
    about: Mapping[str, Any] = field(default_factory=dict)


def point(score: float, **values: Any) -> WrittenTrial:
    """A complete trial of the space, with `references.KEY` for KEY=value."""
    own = {f"references.{key}": value for key, value in values.items()}
    return WrittenTrial("search", {0: 0.1, 10: score / 2, 20: score}, REFERENCE | own)


def reference(score: float) -> WrittenTrial:
    return WrittenTrial("reference", {0: 0.1, 10: score / 2, 20: score}, REFERENCE)


def repeat(score: float, seed: int, of: int = 0, fold: int = 0) -> WrittenTrial:
    about = {"seed": seed, "repeats": of, "fold": fold}
    return WrittenTrial("repeat", {0: 0.1, 20: score}, {}, about=about)


def frozen(written: WrittenTrial, experiment: Experiment = EXPERIMENT, number: int = -1) -> FrozenTrial:
    """Return the trial as a study has it; written at once, which is quicker than in steps."""
    attributes = {"role": written.role, "max_steps": 20, **written.about}
    trial = as_template(experiment.space, Proposal(written.values), attributes)
    trial.number, trial.state = number, written.state
    trial.intermediate_values = dict(written.curve)
    if written.state.is_finished():
        trial.datetime_complete = trial.datetime_start
    if written.state == TrialState.COMPLETE:
        trial.value = (max if experiment.objective.mode == "max" else min)(written.curve.values())
    return trial


def write_search(
    store: Store,
    name: str,
    trials: Sequence[WrittenTrial],
    *,
    state: tags.State | None = "complete",
    planned: int | None = None,
    experiment: Experiment = EXPERIMENT,
    data: str = "glyphs:f",
    outcome: Mapping[str, Any] | None = None,
    children: Iterable[int] = (),
) -> str:
    """Write a search and return the id of its run. `children` are the trials that get runs of their own."""
    tracker = Tracker(store)
    metric, mode = experiment.objective.metric, experiment.objective.mode
    about = {tags.DATA: data, tags.PROTOCOL: experiment.objective.protocol}
    space = tracker.experiment("glyphs-ccp")
    parent = TrackedRun.open(tracker, space, name, role="search", metric=metric, params={}, about=about)
    with claim_name(store, name, experiment, data):
        study = Study(store, name, mode)
        study.describe(metric, {"space": "glyphs-ccp", "planned": planned or len(trials)})
    for written in trials:
        study.create(frozen(written, experiment))
    for number in children:
        child = TrackedRun.open(
            tracker, space, name, f"{number:04d}", role="search", params={}, about=about, parent=parent
        )
        tracker.log_text(child.run_id, "note.txt", "an artifact")
        child.end("complete")
    if outcome is not None:
        tracker.log_json(parent.run_id, "result.json", {"verdict": outcome})
        parent.tag({tags.WINNER_TRIAL: outcome["winner"]})
    if state is not None:
        parent.end(state)
    return parent.run_id
