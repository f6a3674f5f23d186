"""What the MLflow run of a trial holds beside its curve: parameters, tags, the best score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optuna.trial import FrozenTrial

from dmltune import tags
from dmltune.experiment import Experiment
from dmltune.experiment.tree import flatten
from dmltune.runs import TrackedRun
from dmltune.search.budget import fidelity_settings
from dmltune.search.state import TrialRecord


def parameters_of(
    experiment: Experiment, record: TrialRecord, rows: Mapping[int, TrialRecord]
) -> dict[str, Any]:
    """Return what is particular to the trial, and what its components bring with them."""
    own: dict[str, Any] = {"seed": record.seed, "fold": record.fold} if record.role == "repeat" else {}
    if record.role == "cheap":
        own = fidelity_settings(experiment)
    again = rows[record.repeats or 0] if record.role == "repeat" else record
    if again.role == "baseline":
        run = experiment.baseline_experiment()
        return {**(run.brought() if run else {}), **flatten(experiment.baseline), **own}
    return {**experiment.point(again.values, validated=True).brought(), **again.values, **own}


def tags_of(experiment: Experiment, record: TrialRecord) -> dict[str, Any]:
    """Return the tags that other trials of the search do not have."""
    own: dict[str, Any] = {} if record.seed is None else {tags.SEED: record.seed}
    if record.role == "cheap":
        settings = fidelity_settings(experiment).items()
        own[tags.FIDELITY] = " ".join(f"{key}={value}" for key, value in settings)
    return own


def log_best(run: TrackedRun, record: TrialRecord, trial: FrozenTrial, mode: str) -> None:
    """Log the best score; that of a cheap trial, of the trained network, under another name."""
    if record.role != "cheap":
        run.log_best(record.step, record.best)
        return
    trained = [score for step, score in trial.intermediate_values.items() if step > 0]
    if trained:
        best = {f"cheap_best_{run.metric}": (max if mode == "max" else min)(trained)}
        run.tracker.log(run.run_id, record.step, best)
