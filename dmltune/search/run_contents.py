"""What a trial trains, and what its MLflow run holds beside the curve: tags, and the figures of its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optuna.trial import FrozenTrial

from dmltune import tags
from dmltune.errors import UserError
from dmltune.experiment import Experiment
from dmltune.runs import TrackedRun
from dmltune.search.budget import fidelity_settings
from dmltune.search.state import SearchState, TrialRecord


def trained_experiment(
    experiment: Experiment, record: TrialRecord, rows: Mapping[int, TrialRecord]
) -> Experiment:
    """Return what the trial trains; a repetition is looked up in `rows`."""
    if record.role == "repeat":
        original = trained_experiment(experiment, rows[record.repeats or 0], rows)
        changed = {"seed": record.seed, "fold": record.fold}
        return original.with_values({key: v for key, v in changed.items() if v is not None})
    if record.role == "cheap":
        return experiment.cheap_point(record.values)
    if record.role != "baseline":
        return experiment.point(record.values, validated=True)
    baseline = experiment.baseline_experiment()
    assert baseline is not None
    return baseline


def tags_of(experiment: Experiment, trained: Experiment, record: TrialRecord) -> dict[str, Any]:
    """Return the tags of a trial that trains this experiment of the search."""
    own = {tags.SEED: trained.seed, tags.SEARCHED: ", ".join(experiment.space.names)}
    if record.role == "cheap":
        settings = fidelity_settings(experiment).items()
        own[tags.FIDELITY] = " ".join(f"{key}={value}" for key, value in settings)
    return own


def figures_of_end(run: TrackedRun, record: TrialRecord, trial: FrozenTrial, mode: str) -> dict[str, Any]:
    """Return the last step and the best score; a cheap trial logs its own under another name."""
    if record.role != "cheap":
        return {"step": record.step, "best": record.best}
    trained = [score for step, score in trial.intermediate_values.items() if step > 0]
    if trained:
        best = {f"cheap_best_{run.metric}": (max if mode == "max" else min)(trained)}
        run.tracker.log(run.run_id, record.step, best)
    return {"step": record.step}


def require_all_trials(parent: TrackedRun, state: SearchState) -> None:
    """Raise a UserError when MLflow has trials that the study lacks: it was deleted or damaged."""
    tracker = parent.tracker
    children = tracker.children(tracker.client.get_run(parent.run_id))
    logged = {run.data.tags.get(tags.NUMBER, "") for run in children}
    missing = sorted({int(number) for number in logged if number.isdigit()} - set(state.rows))
    if missing:
        raise UserError(
            f"the study of '{state.name}' lacks trial {missing[0]}, which MLflow has: Optuna's "
            "database was deleted or replaced, or the search was begun with another --store. "
            "Restore it from a backup, or choose another --name."
        )
