"""The records of a search's trials: Optuna's study (a resume starts from it), MLflow, and the search state.

Order of writing, so a kill at any point loses nothing: a trial is RUNNING in the study before it has a run;
its run ends before the study says that it is over. What the study calls RUNNING is continued by the next
start, and writing the same thing again changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from dmltune import tags
from dmltune.experiment import Experiment
from dmltune.runs import TrackedRun, data_inputs, training_params
from dmltune.search import restoring
from dmltune.search.engine_trial import EngineTrial
from dmltune.search.known_costs import KnownCosts
from dmltune.search.run_contents import figures_of_end, require_all_trials, tags_of, trained_experiment
from dmltune.search.sampling import Proposal, as_template
from dmltune.search.state import SearchEvent, SearchState, TrialRecord, TrialRole, Watch
from dmltune.search.stored_models import StoredModels
from dmltune.search.study import Study
from dmltune.search.untrained import UntrainedMeasures
from dmltune.search.watching import Watcher
from dmltune.store import Store
from dmltune.train.orders import TrialReport


class TrialRecords:
    """One search's trials, by their number in the study. `parent` is the run of the search."""

    def __init__(
        self,
        store: Store,
        state: SearchState,
        experiment: Experiment,
        parent: TrackedRun,
        about: Mapping[str, Any],
        watch: Watch | None,
    ) -> None:
        self.state = state
        self.study = Study(store, state.name, state.mode)
        self.study.describe(state.metric, {"space": state.space_name, "planned": state.trials_planned})
        self.parent, self.experiment, self._about = parent, experiment, about
        self._store, self._folder = store, store.search_folder(state.name)
        self._watcher = Watcher(watch)
        self._tracker = parent.tracker
        self.experiment_id = self._tracker.client.get_run(parent.run_id).info.experiment_id
        self._scored: dict[int, set[int]] = {}  # number → steps whose score is in the study
        self._sessions: dict[int, float] = {}  # number → when this session began to work on it
        self._reports: dict[int, TrialReport] = {}
        self._runs: dict[int, TrackedRun] = {}
        self.untrained = UntrainedMeasures(self.study)
        self.costs = KnownCosts(self.study, experiment.objective.against)
        self._models = StoredModels(self.study, state)
        for trial in self.study.trials():
            state.put(restoring.record_of(trial, state.mode))
        self._resolve_runs()
        require_all_trials(self.parent, state)

    # ---- reading

    def trials(self) -> list[FrozenTrial]:
        return self.study.trials()

    def points(self) -> list[FrozenTrial]:
        """Return the trials that are points of the space: all but the baseline and the repetitions."""
        return [trial for trial in self.trials() if trial.user_attrs.get("role") in ("reference", "search")]

    def count(self, role: TrialRole) -> int:
        return sum(row.role == role for row in self.state.rows.values())

    def interrupted(self) -> list[int]:
        """Return the trials that are RUNNING in the study, not paused and not worked on by this process."""
        return [
            trial.number
            for trial in self.trials()
            if trial.state == TrialState.RUNNING
            and trial.number not in self._sessions
            and not restoring.is_paused(trial)
        ]

    def paused(self) -> list[int]:
        """Return the trials that wait for their promotion."""
        return [row.number for row in self.state.rows.values() if row.state == "paused"]

    def unfinished(self) -> bool:
        """Whether a trial is to be continued, or ended."""
        return bool(self.interrupted() or self.paused())

    def with_models(self) -> dict[int, int]:
        """Return the configurations that have a stored model, and the trial that it comes from."""
        return self._models.configurations

    def engine_trials(self) -> list[EngineTrial]:
        sign, experiment = (1 if self.state.mode == "max" else -1), self.experiment
        return [
            restoring.engine_trial_of(trial, sign, experiment.seed, experiment.fold)
            for trial in self.trials()
        ]

    def untrained_score(self) -> float | None:
        """Return the score before any step, which is the same for all trials of one network."""
        at_0 = [t.intermediate_values[0] for t in self.trials() if 0 in t.intermediate_values]
        return at_0[0] if at_0 else None

    def trial_folder(self, number: int) -> Path:
        return self._folder / "trials" / f"{number:04d}"

    @property
    def under_way(self) -> list[int]:
        return list(self._sessions)

    # ---- writing

    def open(
        self,
        role: TrialRole,
        proposal: Proposal,
        max_steps: int,
        *,
        seed: int | None = None,
        fold: int | None = None,
        repeats: int | None = None,
    ) -> TrialRecord:
        """Add a trial, first to the study, then as a run.

        A repetition has a `seed` and a `fold`, and `repeats` is the trial whose configuration it trains.
        """
        own = {"seed": seed, "fold": fold, "repeats": repeats}
        attributes = {"role": role, "max_steps": max_steps}
        attributes |= {key: value for key, value in own.items() if value is not None}
        number = self.study.create(as_template(self.experiment.space, proposal, attributes))
        self.study.store_sampler_state(proposal.study_attributes)
        record = TrialRecord(number, role, dict(proposal.values), max_steps=max_steps)
        record.seed, record.fold, record.repeats = seed, fold, repeats
        self.state.put(record)
        return self.resume(number)

    def resume(self, number: int) -> TrialRecord:
        """Work on this trial in this session: its run is made, or continued."""
        record = self._take_up(number)
        self._show("started", record)
        return record

    def _take_up(self, number: int) -> TrialRecord:
        record = self.state.rows[number]
        if record.state == "paused":
            self.study.set_attributes(number, {restoring.PAUSED: False})
        suffix = "" if record.role == "search" else f"-{record.role}"
        trained = self.experiment_of(record)
        self._runs[number] = TrackedRun.open(
            self._tracker,
            self.experiment_id,
            self.state.name,
            f"{number:04d}",
            role=record.role,
            metric=self.state.metric,
            run_name=f"{self.state.name}-{number:04d}{suffix}",
            params=training_params(trained),
            about={**self._about, **tags_of(self.experiment, trained, record)},
            parent=self.parent,
            inputs=data_inputs(trained, str(self._about.get(tags.DATA, "")).partition(":")[2]),
        )
        record.run_id, record.state = self._runs[number].run_id, "running"
        self.study.set_attributes(number, {"run_id": record.run_id})
        self._scored[number] = set(self.study.trial(number).intermediate_values)
        self._sessions[number] = time.monotonic() - record.seconds
        return record

    def experiment_of(self, record: TrialRecord) -> Experiment:
        """Return what a trial trains."""
        return trained_experiment(self.experiment, record, self.state.rows)

    def progress(self, number: int, report: TrialReport, experiment: Experiment) -> None:
        """Write one validation. A step that is written already is not written again."""
        self._reports[number] = report
        record = self.state.rows[number]
        if report.failure:
            return
        record.seconds = time.monotonic() - self._sessions[number]
        if report.step == 0:
            self.untrained.store(experiment, report.metrics)
        self._note_costs(record, report)
        if report.step not in self._scored[number]:
            self._runs[number].log(report)
            if report.score is not None:
                self.study.set_score(number, report.step, report.score)
                self._scored[number].add(report.step)
            self.study.set_attributes(number, {"seconds": round(record.seconds, 2)})
            self._note_projections(number, report)
        record.step, record.max_steps = report.step, report.max_steps
        record.score, record.best, record.metrics = report.score, report.best_score, dict(report.metrics)
        record.best_step = report.best_step
        record.idle = {name: why for name, why in report.idle.items() if name in record.values}
        self._show("progress", record)

    def _note_costs(self, record: TrialRecord, report: TrialReport) -> None:
        """Write what the model costs, which the first report knows."""
        if not record.costs and (costs := self.costs.of(report)):
            self._tracker.log(record.run_id, 0, costs)
            self.study.set_attributes(record.number, {restoring.COSTS: costs})
            record.costs = costs

    def _note_projections(self, number: int, report: TrialReport) -> None:
        if "projection" in report.metrics:
            known = self.study.trial(number).user_attrs.get(restoring.PROJECTIONS, {})
            ended = {str(report.step): restoring.ended_projections(report.metrics)}
            self.study.set_attributes(number, {restoring.PROJECTIONS: {**known, **ended}})

    def pause(self, number: int) -> None:
        """A trial leaves its workers and may be continued. In the study it stays RUNNING."""
        record = self.state.rows[number]
        record.state = "paused"
        self.study.set_attributes(number, {restoring.PAUSED: True, "seconds": round(record.seconds, 2)})
        self._runs[number].interrupt("paused by the scheduler")
        del self._sessions[number]
        self._show("finished", record)

    def close(self, number: int, why_stopped: str) -> TrialRecord:
        """End a trial: complete, failed, or (when its last report was not its end) pruned.

        One that was paused, or that the scheduler stops on resuming, has no report in this session.
        """
        if number not in self._sessions:
            self._take_up(number)
        record, run, report = self.state.rows[number], self._runs[number], self._reports.get(number)
        record.seconds = round(time.monotonic() - self._sessions[number], 2)
        self._store.bring(self.trial_folder(number))
        finished = report is not None and report.finished and not report.failure
        lost = why_stopped.startswith("lost") or not record.step
        if (report is not None and report.failure) or (lost and not finished):
            record.state = "failed"
            record.reason = report.failure if report and report.failure else why_stopped
        elif report is not None and finished:
            record.state, record.reason = "complete", report.reason
        else:
            record.state, record.reason = "pruned", why_stopped
        idle = "\n".join(f"{name}: {why}" for name, why in record.idle.items())
        images = run.log_images(self.trial_folder(number) / "images")
        last = figures_of_end(run, record, self.study.trial(number), self.state.mode)
        last["labels"] = images | ({tags.IDLE: idle} if idle else {})
        if record.state == "failed":
            run.fail(record.reason, report.details if report else "", **last)
        else:
            self._models.store(record, run, self.trial_folder(number) / "best")
            run.end(record.state, record.reason, **last)
        stored = ("reason", "seconds", "metrics", "idle")
        self.study.set_attributes(number, {name: getattr(record, name) for name in stored})
        state = restoring.STUDY_STATES[record.state]
        score = record.best if record.state == "complete" else None
        if record.role == "cheap" and score is not None:
            self.study.set_attributes(number, {restoring.CHEAP_SCORE: score})
            state, score = TrialState.PRUNED, None
        self.study.finish(number, state, score)
        del self._sessions[number]
        self._store.discard(self.trial_folder(number))
        self._show("finished", record)
        return record

    def interrupt(self, number: int, reason: str) -> None:
        """End the run of a trial that is continued later. In the study it stays RUNNING."""
        record = self.state.rows[number]
        record.state, record.reason = "interrupted", reason
        self._runs[number].interrupt(reason)
        del self._sessions[number]
        self._show("finished", record)

    def _resolve_runs(self) -> None:
        """Give trials that were opened while the server was away the ids of their runs."""
        for row in self.state.rows.values():
            row.run_id = self._tracker.resolved(row.run_id)

    def flush(self, seconds: float) -> None:
        """Wait until the tracking server has all; a UserError says what it has not got in time."""
        try:
            self._tracker.flush(seconds)
        finally:
            self.pass_on_notes()
        self._resolve_runs()

    def pass_on_notes(self) -> None:
        """Show what the tracker has to say: that its server is away, and that it is back."""
        while notes := self._tracker.notes:
            self.message(notes.popleft())

    def message(self, text: str) -> None:
        self._watcher.show(SearchEvent("message", None, text, self.state))

    def _show(self, kind: Any, record: TrialRecord) -> None:
        self.state.put(record)
        self._watcher.show(SearchEvent(kind, record, "", self.state))
