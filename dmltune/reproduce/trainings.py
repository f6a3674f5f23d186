"""The trainings of a figure: a series of runs, opened with the first training that is left to do."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from dmltune.check.configurations import digest
from dmltune.core.checkpoint import MODEL
from dmltune.experiment import Experiment
from dmltune.report.formatting import percent
from dmltune.resources import Locations, Resources
from dmltune.runs import CONTINUES
from dmltune.store import validated_name
from dmltune.train.build import validate_experiment
from dmltune.train.in_process import TrainingPool, training_pool

if TYPE_CHECKING:
    from dmltune.core.run import Progress, Run
    from dmltune.runs import TrackedRun
    from dmltune.train.orders import TrialReport
    from dmltune.train.run_series import RunSeries

Curve = tuple[Mapping[str, float], ...]


class Unfinished(Exception):
    """Nothing can be drawn: the user stopped the trainings, or all of them failed."""


class Planned(Exception):
    """Raised in the place of a training when only the plan is wanted."""

    def __init__(self, cells: Mapping[str, Experiment]) -> None:
        super().__init__(f"{len(cells)} trainings")
        self.cells = cells


@dataclass(frozen=True)
class CellResult:
    """What one training came to.

    `curve` has the metrics of each validation and its `step`. `test` are those on the test classes, if they
    were measured. `weights` is the file of the best weights, if they stay.
    """

    run_id: str
    score: float
    best_step: int
    step: int
    curve: Curve
    test: Mapping[str, Any] = field(default_factory=dict)
    weights: Path | None = None

    def best(self, metric: str) -> float:
        """Return a metric of the best validation."""
        return next(point[metric] for point in self.curve if point["step"] == self.best_step)

    def column(self, metric: str) -> list[float]:
        """Return a metric of every validation that has it."""
        return [point[metric] for point in self.curve if metric in point]


class Trainings:
    """Trains cells under a claimed name; their runs are in MLflow's experiment `group`."""

    def __init__(
        self,
        group: str,
        name: str,
        base: Experiment | None,
        fingerprint: str,
        resources: Resources,
        locations: Locations,
        log: Callable[[str], None],
    ) -> None:
        self.group, self.name = group, name
        self.resources, self.locations, self.log = resources, locations, log
        self.failed: dict[str, str] = {}
        self.stopped = False
        self._base, self._fingerprint = base, fingerprint
        self._series: RunSeries | None = None
        self._stack = contextlib.ExitStack()
        self._pool: TrainingPool | None = None

    @property
    def folder(self) -> Path:
        return self.locations.store.search_folder(self.name)

    @property
    def parent(self) -> TrackedRun | None:
        """Return the run of the series, once something is trained in it."""
        return self._series.parent if self._series else None

    def results(
        self, cells: Mapping[str, Experiment], test: bool = False, keep_weights: bool = False
    ) -> dict[str, CellResult]:
        """Train the cells without a result; return those that are done in the order of `cells`."""
        self.locations.store.bring(self.folder)
        left = {validated_name(key): each for key, each in cells.items() if self._stored(key) is None}
        if left:
            self.log(f"{len(left)} of {len(cells)} trainings to do")
            for experiment in _one_of_each_kind(left.values()):
                validate_experiment(experiment, self.locations)
            self._train(left, test, keep_weights)
        done = {key: result for key in cells if (result := self._stored(key)) is not None}
        self.stopped = any(key not in done and key not in self.failed for key in cells)
        if self.stopped or not done:
            raise Unfinished
        return done

    def fit(self, experiment: Experiment) -> Iterator[tuple[Run, Progress]]:
        """Train in this process and yield the whole state at every validation. Nothing is stored."""
        from dmltune.core.fit import fit
        from dmltune.core.threads import torch_threads
        from dmltune.train.build import build_run
        from dmltune.train.ray_session import threads_of, usable_cores

        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        with torch_threads(threads_of(usable_cores())):
            run = build_run(experiment, self.locations.absolute_root, device)
            for progress in fit(run):
                yield run, progress

    def close(self, interrupted: str = "") -> None:
        """End the workers and the runs."""
        self._stack.close()
        if self._series is not None:
            self._series.close(interrupted or (CONTINUES if self.stopped else ""))

    def _train(self, left: Mapping[str, Experiment], test: bool, keep_weights: bool) -> None:
        series = self._opened()
        for key, run, report in series.train(self._workers(), left):
            if report.failure:
                self.failed[key] = report.failure
            elif report.finished:
                result = {
                    "run_id": run.run_id,
                    "score": report.best_score,
                    "best_step": report.best_step,
                    "step": report.step,
                    "curve": series.tracker.curve(run.run_id),
                    "test": self._measured(run) if test else {},
                }
                series.store_result(key, result, weights=keep_weights)
            self.log(line(key, report))

    def _measured(self, run: TrackedRun) -> dict[str, Any]:
        from dmltune.evaluation import evaluate

        at = self.locations
        return evaluate(run.run_id, split="test", kind="reproduce", store=at.store, data_root=at.data_root)

    def _stored(self, key: str) -> CellResult | None:
        from dmltune.train.run_series import TRIALS, stored_result

        result = stored_result(self.folder, key)
        if result is None:
            return None
        weights = self.folder / TRIALS / key / "best" / MODEL
        curve = tuple(result.pop("curve"))
        return CellResult(**result, curve=curve, weights=weights if weights.is_file() else None)

    def _opened(self) -> RunSeries:
        from dmltune.train.run_series import RunSeries

        if self._series is None:
            assert self._base is not None
            series = RunSeries(
                self.locations, self.name, self.group, self._base, self._fingerprint, "reproduction"
            )
            self._series = series
        return self._series

    def _workers(self) -> TrainingPool:
        if self._pool is None:
            self._pool = self._stack.enter_context(training_pool(self.resources, self.locations, self.log))
        return self._pool


def _one_of_each_kind(experiments: Iterable[Experiment]) -> list[Experiment]:
    """Return the first of the experiments that differ in the seed alone."""
    kinds = {digest(each): each for each in experiments}
    return list(kinds.values())


def line(key: str, report: TrialReport) -> str:
    """Return `gsp-seed0: step 80/240, validation MAP@R 15.4 %`."""
    if report.failure:
        return f"{key} failed: {report.failure}"
    return f"{key}: step {report.step}/{report.max_steps}, validation MAP@R {percent(report.score)} %"
