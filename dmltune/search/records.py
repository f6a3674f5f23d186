"""What happened, written down at once: Optuna's study (the truth a resume starts from), MLflow, the board.

Order of writing, so that a kill at any point loses nothing: a trial is RUNNING in the study before it has a
run; its run ends before the study says that it is over. What the study still calls RUNNING is therefore
continued by the next start, and writing the same thing again changes nothing.
"""

from __future__ import annotations

import shutil
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState

from dmltune.experiment import Experiment
from dmltune.experiment.tree import flatten
from dmltune.search.sampling import as_template
from dmltune.search.state import Event, Role, RowState, SearchState, TrialRecord, Watch
from dmltune.store import Store
from dmltune.tracking import Tracker
from dmltune.train.orders import TrialReport

KEEP_BEST = 3  # checkpoints kept of a search, besides the reference's and the baseline's
_STATES: dict[TrialState, RowState] = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "interrupted",
}


class TrialRecords:
    """One search's trials, by their number in the study."""

    def __init__(
        self,
        store: Store,
        tracker: Tracker,
        board: SearchState,
        experiment: Experiment,
        parent_run: str,
        tags: Mapping[str, Any],
        watch: Watch | None,
    ) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.board = board
        self._tracker = tracker
        self._space = experiment.space
        self._baseline = flatten(experiment.baseline)
        self._tags = tags
        self._parent_run = parent_run
        self._experiment_id = tracker.client.get_run(parent_run).info.experiment_id
        self._folder = store.search_folder(board.name)
        self._watch = watch
        with store.creation_lock():
            self._storage = RDBStorage(
                store.optuna_url, engine_kwargs={"connect_args": _patience(store.optuna_url)}
            )
            self._study = optuna.create_study(
                study_name=board.name,
                storage=self._storage,
                direction="maximize" if board.mode == "max" else "minimize",
                load_if_exists=True,
            )
        self._study_id = self._storage.get_study_id_from_name(board.name)
        self._sessions: dict[int, float] = {}  # number → when this session began to work on it
        self._reports: dict[int, TrialReport] = {}
        self._models: set[int] = set(self._study.user_attrs.get("models", []))  # kept as artifacts
        for trial in self.trials():
            board.put(_row(trial, board.mode))

    # ---- reading

    def trials(self) -> list[FrozenTrial]:
        return self._study.get_trials(deepcopy=False)

    def points(self) -> list[FrozenTrial]:
        """The trials that are points of the space: all but the baseline."""
        return [trial for trial in self.trials() if trial.user_attrs.get("role") != "baseline"]

    def interrupted(self) -> list[int]:
        """Trials that are RUNNING in the study and not worked on by this process."""
        return [
            t.number
            for t in self.trials()
            if t.state == TrialState.RUNNING and t.number not in self._sessions
        ]

    def untrained_score(self) -> float | None:
        """The score of the first validation of the search, before any step."""
        at_0 = [t.intermediate_values[0] for t in self.trials() if 0 in t.intermediate_values]
        return at_0[0] if at_0 else None

    def trial_folder(self, number: int) -> Path:
        return self._folder / "trials" / f"{number:04d}"

    # ---- writing

    def open(self, role: Role, values: Mapping[str, Any], max_steps: int) -> TrialRecord:
        """A new trial, first in the study, then as a run."""
        attributes = {"role": role, "max_steps": max_steps}
        template = as_template(self._space, values, attributes)
        number = self._storage.get_trial_number_from_id(
            self._storage.create_new_trial(self._study_id, template)
        )
        self.board.put(TrialRecord(number, role, dict(values), max_steps=max_steps))
        return self.resume(number)

    def resume(self, number: int) -> TrialRecord:
        """Work on this trial in this session: its run is made, or opened again."""
        row = self.board.rows[number]
        row.run_id = self._tracker.open_run(
            self._experiment_id,
            name=f"{self.board.name}-{number:04d}" + ("" if row.role == "search" else f"-{row.role}"),
            key={"dmltune.search": self.board.name, "dmltune.number": f"{number:04d}"},
            params=self._baseline if row.role == "baseline" else row.values,
            tags={**self._tags, "dmltune.role": row.role, "dmltune.state": "running", "dmltune.reason": ""},
            parent=self._parent_run,
        )
        row.state = "running"
        self._storage.set_trial_user_attr(self._id(number), "run_id", row.run_id)
        self._sessions[number] = time.time() - row.seconds
        self._say("started", row)
        return row

    def progress(self, number: int, report: TrialReport) -> None:
        """One validation. A step that is already written is not written again."""
        self._reports[number] = report
        row = self.board.rows[number]
        if report.failure:
            return
        row.seconds = time.time() - self._sessions[number]
        written = self._storage.get_trial(self._id(number)).intermediate_values
        if report.step not in written:
            self._tracker.log(row.run_id, report.step, report.metrics)
            if report.score is not None:
                self._storage.set_trial_intermediate_value(self._id(number), report.step, report.score)
            self._storage.set_trial_user_attr(self._id(number), "seconds", round(row.seconds, 2))
        row.step, row.max_steps = report.step, report.max_steps
        row.score, row.best, row.metrics = report.score, report.best_score, dict(report.metrics)
        self._say("progress", row)

    def close(self, number: int, why_stopped: str) -> TrialRecord:
        """The trial is over: complete, failed, or (when its last report was not its end) pruned for
        `why_stopped`.
        """
        row = self.board.rows[number]
        report = self._reports.get(number)
        row.seconds = round(time.time() - self._sessions[number], 2)
        if report is not None and report.failure:
            row.state, row.reason = "failed", report.failure
        elif report is not None and report.finished:
            row.state, row.reason = "complete", report.reason
        elif report is None or why_stopped.startswith("lost"):
            row.state, row.reason = "failed", why_stopped
        else:
            row.state, row.reason = "pruned", why_stopped
        if row.best is not None:
            self._tracker.log(row.run_id, row.step, {"best_" + self.board.metric: row.best})
        if report is not None and report.details:
            self._tracker.log_text(row.run_id, "failure.txt", report.details)
        self._keep_model(row)
        self._tracker.close_run(row.run_id, row.state, row.reason)
        for key in ("reason", "seconds", "metrics"):
            self._storage.set_trial_user_attr(self._id(number), key, getattr(row, key))
        state = {s: t for t, s in _STATES.items()}[row.state]
        value = [row.best] if row.state == "complete" and row.best is not None else None
        self._storage.set_trial_state_values(self._id(number), state, value)
        del self._sessions[number]
        shutil.rmtree(self.trial_folder(number), ignore_errors=True)
        self._say("finished", row)
        return row

    def interrupt(self, number: int, reason: str) -> None:
        """The search stops; the trial will be continued. In the study it stays RUNNING, its run does not."""
        row = self.board.rows[number]
        row.state, row.reason = "interrupted", reason
        self._tracker.close_run(row.run_id, "interrupted", reason)
        del self._sessions[number]
        self._say("finished", row)

    def _id(self, number: int) -> int:
        return self._storage.get_trial_id_from_study_id_trial_number(self._study_id, number)

    @property
    def under_way(self) -> list[int]:
        return list(self._sessions)

    def message(self, text: str) -> None:
        self._show(Event("message", None, text, self.board))

    # ---- checkpoints

    def _keep_model(self, row: TrialRecord) -> None:
        """Keep the models of the best trials, of the reference and of the baseline; delete those that were
        overtaken.
        """
        model = self.trial_folder(row.number) / "best"
        if row.state != "complete" or not model.is_dir():
            return
        keep = self._best_numbers()
        if row.number in keep or row.role != "search":
            self._tracker.log_model(row.run_id, model)
            self._mark_model(row.number, True)
        for number in self._models - {*keep}:
            if self.board.rows[number].role == "search":
                self._tracker.drop_model(self.board.rows[number].run_id)
                self._mark_model(number, False)

    def _mark_model(self, number: int, there: bool) -> None:
        (self._models.add if there else self._models.discard)(number)
        self._study.set_user_attr("models", sorted(self._models))  # a finished trial takes no attributes

    def _best_numbers(self) -> list[int]:
        sign = -1 if self.board.mode == "max" else 1
        done = [r for r in self.board.rows.values() if r.state == "complete" and r.best is not None]
        done.sort(key=lambda r: (sign * (r.best or 0.0), r.number))
        return [r.number for r in done[:KEEP_BEST]]

    def _say(self, kind: Any, row: TrialRecord) -> None:
        self.board.put(row)
        self._show(Event(kind, row, "", self.board))

    def _show(self, event: Event) -> None:
        """Whoever watches cannot hurt the search: after an error it is not told any more."""
        if self._watch is None:
            return
        try:
            self._watch(event)
        except Exception as error:
            self._watch = None
            warnings.warn(f"the search goes on unwatched: {type(error).__name__}: {error}", stacklevel=2)


def _row(trial: FrozenTrial, mode: str) -> TrialRecord:
    scores = trial.intermediate_values
    best = (max if mode == "max" else min)(scores.values(), default=None)
    last = max(scores, default=0)
    return TrialRecord(
        number=trial.number,
        role=trial.user_attrs.get("role", "search"),
        values=dict(trial.params),
        state=_STATES.get(trial.state, "interrupted"),
        step=last,
        max_steps=int(trial.user_attrs.get("max_steps", 0)),
        score=scores.get(last),
        best=trial.value if trial.value is not None else best,
        metrics=dict(trial.user_attrs.get("metrics", {})),
        seconds=float(trial.user_attrs.get("seconds", 0.0)),
        reason=str(trial.user_attrs.get("reason", "")),
        run_id=str(trial.user_attrs.get("run_id", "")),
    )


def _patience(url: str) -> dict[str, Any]:
    """SQLite waits for another writer instead of failing at once."""
    return {"timeout": 60} if url.startswith("sqlite") else {}
