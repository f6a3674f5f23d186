"""Between Ray Tune and the search engine: Tune's questions, the engine's answers, the records of both.

Stock `OptunaSearch` tells Optuna that an early-stopped trial is COMPLETE with its low value, leaves NaN
trials RUNNING, and cannot be restored with a database behind it. Stock schedulers keep what they know of a
trial in memory. Here both ask the engine (engine.py), which is rebuilt from the study. A paused trial ends
for Tune, and comes back as another trial of Tune's with the same order.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher

from dmltune.errors import UserError
from dmltune.experiment import Experiment
from dmltune.report.fidelity_lines import trust_message
from dmltune.search.budget import fidelity_settings
from dmltune.search.engine import END, Continue, Engine, Start
from dmltune.search.engine_trial import Decision, EngineTrial
from dmltune.search.records import TrialRecords
from dmltune.search.restoring import ended_projections
from dmltune.search.state import TrialRecord
from dmltune.train.orders import DISK_FULL, Order, TrialReport

STOPPED = "stopped early by the scheduler"


@dataclass(frozen=True)
class Dispatch:
    """How the searcher reaches the workers: orders for them, the broker's address, and how to end or pause an
    order."""

    make_order: Callable[[TrialRecord, Experiment], Order]
    close_order: Callable[[str], Any]
    pause_order: Callable[[str], Any]
    address: Mapping[str, str]
    concurrent: Callable[[], int]


@dataclass
class _LiveTrial:
    number: int
    order_id: str
    experiment: Experiment
    decision: Decision = "continue"
    seen: int = -1  # the number of its last report


class StudySearcher(Searcher):
    """Interrupted trials first, then what the engine says."""

    def __init__(
        self,
        experiment: Experiment,
        records: TrialRecords,
        engine: Engine,
        dispatch: Dispatch,
        may_start: Callable[[], bool],
    ) -> None:
        super().__init__(metric="score", mode=experiment.objective.mode)
        self._experiment = experiment
        self._records = records
        self._engine = engine
        self._dispatch = dispatch
        self._may_start = may_start
        self.failure: Exception | None = None  # Tune would call it the trial's; it ends the search
        self.ended = False  # nothing is left to start
        self._waiting = deque(records.interrupted())
        self._live: dict[str, _LiveTrial] = {}  # by Tune's id

    # ---- what Tune calls

    def suggest(self, trial_id: str) -> Any:
        try:
            return self._suggest(trial_id)
        except Exception as error:
            self.failure = self.failure or error
            return Searcher.FINISHED

    def _suggest(self, trial_id: str) -> Any:
        if not self._may_start():
            return Searcher.FINISHED
        if len(self._live) >= self._dispatch.concurrent():
            return None
        record = self._next()
        if record is None:
            return Searcher.FINISHED if self.ended else None
        experiment = self._records.experiment_of(record)
        order = self._dispatch.make_order(record, experiment)
        self._live[trial_id] = _LiveTrial(record.number, order.id, experiment)
        return {"order": json.dumps(vars(order)), **self._dispatch.address}

    def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
        if trial_id not in self._live:
            return
        trial = self._live.pop(trial_id)
        with self._noting_failures():
            self._dispatch.close_order(trial.order_id)
            self._close(trial.number, "lost: its Tune actor died" if error else STOPPED)

    def record(self, trial_id: str, report: TrialReport) -> Decision:
        """Write one validation, and return whether the trial goes on."""
        trial = self._live.get(trial_id)
        if trial is None:
            return "continue"
        if report.number <= trial.seen:
            return trial.decision
        trial.seen = report.number
        if report.failure.startswith(DISK_FULL):
            # not the configuration's fault: it stays under way, and the search ends
            del self._live[trial_id]
            self._dispatch.close_order(trial.order_id)
            why = f"{report.failure}. Make room; the same command continues."
            self.failure = self.failure or UserError(why)
            return "stop"
        with self._noting_failures():
            self._records.progress(trial.number, report, trial.experiment)
            self._engine.note_costs(trial.number, self._records.state.rows[trial.number].costs)
            score = report.score
            if score is not None and math.isfinite(score) and not report.failure:
                ended = ended_projections(report.metrics)
                decision = self._engine.report(trial.number, report.step, self._sign * score, ended)
                trial.decision = "continue" if report.finished else decision
            if trial.decision == "pause":
                self._pause(trial_id, trial)
        return trial.decision

    def _pause(self, trial_id: str, trial: _LiveTrial) -> None:
        """Pause it at once: it may be the next to continue, before Tune has ended its own trial."""
        del self._live[trial_id]
        self._dispatch.pause_order(trial.order_id)
        self._records.pause(trial.number)
        self._engine.end(trial.number, "paused")

    @property
    def _sign(self) -> int:
        return 1 if self._experiment.objective.mode == "max" else -1

    @contextlib.contextmanager
    def _noting_failures(self) -> Iterator[None]:
        """Note errors that must end the search: a full disk, a lost tracking server, a missing model."""
        try:
            yield
        except Exception as error:
            self.failure = self.failure or error

    # ---- Tune pickles searchers; the state of this one is in the study

    def save(self, checkpoint_path: str) -> None:
        return None

    def restore(self, checkpoint_path: str) -> None:
        return None

    def __getstate__(self) -> dict[str, Any]:
        return {}

    # ---- which trial is next

    def _next(self) -> TrialRecord | None:
        while self._waiting:
            number = self._waiting.popleft()
            decision = self._engine.decide_again(number)
            if decision == "continue":
                return self._records.resume(number)
            self._records.resume(number)
            if decision == "stop":
                self._close(number, STOPPED)
            else:
                self._records.pause(number)
                self._engine.end(number, "paused")
        found = self._engine.next()
        if found == END:
            self.ended = True
        if isinstance(found, Continue):
            return self._records.resume(found.number)
        return self._open(found) if isinstance(found, Start) else None

    def _open(self, start: Start) -> TrialRecord:
        own: dict[str, Any] = {}
        if start.role == "repeat":
            own = {"seed": start.seed, "fold": start.fold, "repeats": start.repeats}
        steps = self._experiment.max_steps
        if start.role == "cheap":
            steps = fidelity_settings(self._experiment).get("max_steps", steps)
        record = self._records.open(start.role, start.proposal, steps, **own)
        self._engine.add(
            EngineTrial(
                record.number,
                start.role,
                record.values,
                start.seed,
                start.fold,
                start.repeats,
                attributes=start.proposal.trial_attributes,
            )
        )
        return record

    def _close(self, number: int, why: str) -> None:
        state = self._records.close(number, why).state
        assert state in ("complete", "failed", "pruned")
        before = self._engine.trust()
        self._engine.end(number, state)
        if (trust := self._engine.trust()) is not None and before is None:
            self._records.message(trust_message(trust))


class EngineScheduler(FIFOScheduler):
    """Hands every result to the searcher, and ends the trials that the engine stops or pauses."""

    def __init__(self, searcher: StudySearcher) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._searcher: StudySearcher | None = searcher

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        if self._searcher is None:
            return str(TrialScheduler.CONTINUE)
        decision = self._searcher.record(trial.trial_id, TrialReport(**json.loads(result["report"])))
        goes_on = decision == "continue"
        return str(TrialScheduler.CONTINUE if goes_on else TrialScheduler.STOP)

    def on_trial_complete(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> None:
        if self._searcher is not None and "report" in result:
            self._searcher.record(trial.trial_id, TrialReport(**json.loads(result["report"])))

    def __getstate__(self) -> dict[str, Any]:
        return {"_searcher": None}  # Tune pickles schedulers
