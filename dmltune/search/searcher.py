"""Ray Tune's searcher: which trial is next, and what became of it.

Stock `OptunaSearch` tells Optuna that an early-stopped trial is COMPLETE with its low value, leaves NaN
trials RUNNING, and cannot be restored with a database behind it. This one writes through TrialRecords:
PRUNED, FAIL, and telling twice is telling once.
"""

from __future__ import annotations

import contextlib
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ray.tune import Callback
from ray.tune.experiment import Trial
from ray.tune.search import Searcher

from dmltune.experiment import Experiment
from dmltune.search.records import TrialRecords
from dmltune.search.sampling import Proposal, Proposer
from dmltune.search.state import TrialRecord
from dmltune.train.orders import Order, TrialReport


@dataclass(frozen=True)
class Dispatch:
    """How the searcher reaches the workers: orders for them, the broker's address, and how to end an
    order."""

    make_order: Callable[[TrialRecord, Experiment], Order]
    close_order: Callable[[str], Any]
    address: Mapping[str, str]
    concurrent: int


@dataclass(frozen=True)
class _LiveTrial:
    number: int
    order_id: str
    experiment: Experiment


class StudySearcher(Searcher):
    """Interrupted trials first, then the reference (trial 0), the baseline, the repetitions of the reference
    with other seeds, and the sampler's proposals.
    """

    def __init__(
        self,
        experiment: Experiment,
        records: TrialRecords,
        proposer: Proposer,
        points: int,
        dispatch: Dispatch,
        may_start: Callable[[], bool],
    ) -> None:
        super().__init__(metric="score", mode=experiment.objective.mode)
        self._experiment = experiment
        self._records = records
        self._proposer = proposer
        self._points = points
        self._dispatch = dispatch
        self._may_start = may_start
        self.failure: Exception | None = None  # Tune would call it the trial's; it ends the search
        self.paused: set[str] = set()  # Tune's ids; a paused trial holds no worker group
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
        if len(self._live.keys() - self.paused) >= self._dispatch.concurrent:
            return None
        record = self._next()
        if record is None:
            return Searcher.FINISHED
        experiment = self._experiment_of(record)
        order = self._dispatch.make_order(record, experiment)
        self._live[trial_id] = _LiveTrial(record.number, order.id, experiment)
        treatment = {"protected": record.role != "search", "ranked": record.role != "repeat"}
        return {"order": json.dumps(vars(order)), **treatment, **self._dispatch.address}

    def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
        if trial_id not in self._live:
            return
        trial = self._live.pop(trial_id)
        self._dispatch.close_order(trial.order_id)
        with self._noting_failures():
            why = "lost: its Tune actor died" if error else "stopped early by the scheduler"
            self._records.close(trial.number, why)

    def record(self, trial_id: str, report: TrialReport) -> None:
        if trial := self._live.get(trial_id):
            with self._noting_failures():
                self._records.progress(trial.number, report, trial.experiment)

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
        records, steps = self._records, self._experiment.max_steps
        if self._waiting:
            return records.resume(self._waiting.popleft())
        points = records.points()
        if not points and self._experiment.space.reference_point:
            return records.open("reference", Proposal(self._experiment.space.reference_point), steps)
        if self._experiment.baseline and not records.count("baseline"):
            return records.open("baseline", Proposal({}), steps)
        if (repeat := 1 + records.count("repeat")) < self._experiment.noise_seeds:
            return records.open("repeat", Proposal({}), steps, self._experiment.seed + repeat)
        if len(points) >= self._points:
            return None
        proposal = self._proposer.propose(points, records.study.sampler_state())
        return None if proposal is None else records.open("search", proposal, steps)

    def _experiment_of(self, record: TrialRecord) -> Experiment:
        if record.role == "repeat":
            return self._experiment.reference_experiment().with_values({"seed": record.seed})
        if record.role != "baseline":
            return self._experiment.point(record.values, validated=True)
        baseline = self._experiment.baseline_experiment()
        assert baseline is not None
        return baseline


class Recorder(Callback):
    """Hands every result to the searcher (Tune's searchers do not get the last one), and which trials are
    paused."""

    def __init__(self, searcher: StudySearcher) -> None:
        self._searcher: StudySearcher | None = searcher

    def on_trial_result(
        self, iteration: int, trials: Any, trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        if self._searcher is not None:
            self._searcher.record(trial.trial_id, TrialReport(**result["report"]))

    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        if self._searcher is not None:
            self._searcher.paused = {trial.trial_id for trial in trials if trial.status == Trial.PAUSED}

    def __getstate__(self) -> dict[str, Any]:
        return {"_searcher": None}  # Tune pickles callbacks
