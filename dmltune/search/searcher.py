"""Ray Tune's view of the search: which trial is next, and what became of it.

Stock `OptunaSearch` calls an early-stopped trial COMPLETE with its low value, leaves NaN trials RUNNING, and
cannot be restored with a database behind it. Here everything goes through the logbook: PRUNED, FAIL, and
telling twice is telling once.
"""

from __future__ import annotations

import contextlib
import json
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from ray.tune import Callback
from ray.tune.search import Searcher

from dmltune.experiment import Experiment
from dmltune.search.records import TrialRecords
from dmltune.search.sampling import Proposer
from dmltune.search.state import TrialRecord
from dmltune.train.orders import Order, TrialReport

MakeOrder = Callable[[TrialRecord, Experiment], Order]


class StudySearcher(Searcher):
    """Interrupted trials first, then the reference (trial 0), the baseline, and the sampler's proposals."""

    def __init__(
        self,
        experiment: Experiment,
        logbook: TrialRecords,
        proposer: Proposer,
        *,
        points: int,
        concurrent: int,
        make_order: MakeOrder,
        address: dict[str, str],
        close_order: Callable[[str], Any],
        may_start: Callable[[], bool],
    ) -> None:
        super().__init__(metric="score", mode=experiment.objective.mode)
        self._experiment = experiment
        self._logbook = logbook
        self._proposer = proposer
        self._points = points
        self._concurrent = concurrent
        self._make_order = make_order
        self._address = address
        self._close_order = close_order
        self._may_start = may_start
        self.failure: Exception | None = None  # Tune would call it the trial's; it ends the search
        self._waiting = deque(logbook.interrupted())
        self._live: dict[str, tuple[int, str]] = {}  # Tune's id → our number, order id

    # ---- what Tune asks

    def suggest(self, trial_id: str) -> Any:
        try:
            return self._suggest(trial_id)
        except Exception as error:
            self.failure = self.failure or error
            return Searcher.FINISHED

    def _suggest(self, trial_id: str) -> Any:
        if not self._may_start():
            return Searcher.FINISHED
        if len(self._live) >= self._concurrent:
            return None
        row = self._next()
        if row is None:
            return Searcher.FINISHED
        order = self._make_order(row, self._experiment_of(row))
        self._live[trial_id] = (row.number, order.id)
        return {"order": json.dumps(vars(order)), "protected": row.role != "search", **self._address}

    def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
        if trial_id not in self._live:
            return
        number, order_id = self._live.pop(trial_id)
        self._close_order(order_id)
        with self._noticing_failures():
            why = "lost: its Tune actor died" if error else "stopped early by the scheduler"
            self._logbook.close(number, why)

    def record(self, trial_id: str, report: TrialReport) -> None:
        if trial_id in self._live:
            with self._noticing_failures():
                self._logbook.progress(self._live[trial_id][0], report)

    @contextlib.contextmanager
    def _noticing_failures(self) -> Iterator[None]:
        """The disk is full, the tracking server gone, no point satisfies the rules: the search must end."""
        try:
            yield
        except Exception as error:
            self.failure = self.failure or error

    # ---- Tune saves searchers with pickle; ours keeps its state in the study and gives nothing away

    def save(self, checkpoint_path: str) -> None:
        return None

    def restore(self, checkpoint_path: str) -> None:
        return None

    def __getstate__(self) -> dict[str, Any]:
        return {}

    # ---- which trial is next

    def _next(self) -> TrialRecord | None:
        if self._waiting:
            return self._logbook.resume(self._waiting.popleft())
        steps = self._experiment.max_steps
        points = self._logbook.points()
        if not points and self._experiment.space.reference_point:
            return self._logbook.open("reference", self._experiment.space.reference_point, steps)
        if self._experiment.baseline and len(self._logbook.trials()) == len(points):
            return self._logbook.open("baseline", {}, steps)
        if len(points) >= self._points:
            return None
        values = self._proposer.propose(points)
        return None if values is None else self._logbook.open("search", values, steps)

    def _experiment_of(self, row: TrialRecord) -> Experiment:
        if row.role != "baseline":
            return self._experiment.point(row.values)
        baseline = self._experiment.baseline_experiment()
        assert baseline is not None
        return baseline


class Recorder(Callback):
    """Hands every result to the searcher; Tune's searchers are not told of the last one."""

    def __init__(self, searcher: StudySearcher) -> None:
        self._searcher: StudySearcher | None = searcher

    def on_trial_result(
        self, iteration: int, trials: Any, trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        if self._searcher is not None:
            self._searcher.record(trial.trial_id, TrialReport(**json.loads(result["report"])))

    def __getstate__(self) -> dict[str, Any]:
        return {"_searcher": None}  # Tune pickles callbacks
