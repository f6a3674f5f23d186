"""The life of one MLflow run: opened or continued, logged to, ended. Trainings of every kind use it.

Order of writing: metrics as they come, then the model, then the final state. A run in state `complete` has
its model. Every method may be repeated after a kill: a step that is logged is not logged again, and a run is
identified by its tags (tags.NAME, tags.NUMBER), so opening it twice continues it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dmltune import tags
from dmltune.errors import UserError
from dmltune.provenance import this_process, version_tags
from dmltune.tracking import Tracker

if TYPE_CHECKING:
    from dmltune.experiment import Experiment
    from dmltune.train.orders import TrialReport

CONTINUES = "the same command continues"


def provenance(experiment: Experiment, fingerprint: str) -> dict[str, Any]:
    """Return the tags that say what made a run: seed, data, protocol, commit, versions."""
    return {
        tags.SEED: experiment.seed,
        tags.DATA: f"{experiment.data.name}:{fingerprint}",
        tags.PROTOCOL: experiment.objective.protocol,
        **version_tags(),
    }


@dataclass
class TrackedRun:
    """One run of `Tracker`. `metric` is the objective's; its best value is logged as `best_<metric>`."""

    tracker: Tracker
    run_id: str
    metric: str
    _logged_steps: set[int] | None = field(default=None, init=False, repr=False)

    @classmethod
    def open(
        cls,
        tracker: Tracker,
        experiment_id: str,
        name: str,
        number: str = tags.PARENT,
        *,
        role: tags.Role,
        metric: str = "",
        run_name: str = "",
        params: Mapping[str, Any],
        about: Mapping[str, Any],
        parent: TrackedRun | None = None,
    ) -> TrackedRun:
        """Open the run `number` of `name`; an existing one is continued and keeps its parameters."""
        run_id = tracker.open_run(
            experiment_id,
            run_name or name,
            key={tags.NAME: name, tags.NUMBER: number},
            params=params,
            tags={**about, tags.ROLE: role, tags.STATE: "running", tags.REASON: ""},
            parent=parent.run_id if parent else None,
        )
        return cls(tracker, run_id, metric)

    def reopen(self, about: Mapping[str, Any]) -> None:
        """Continue the run in this process, with the tags of what makes it now."""
        self.tracker.client.update_run(self.run_id, status="RUNNING")
        self.tag({**about, tags.STATE: "running", tags.REASON: "", tags.DRIVER: this_process()})

    def log(self, report: TrialReport) -> None:
        """Log the metrics of one validation, unless its step is logged already."""
        if report.failure:
            return
        if self._logged_steps is None:
            self._logged_steps = self.tracker.logged_steps(self.run_id, self.metric)
        if report.step not in self._logged_steps:
            self.tracker.log(self.run_id, report.step, report.metrics)
            self._logged_steps.add(report.step)

    def tag(self, values: Mapping[str, Any]) -> None:
        self.tracker.tag(self.run_id, values)

    def log_best(self, step: int, score: float | None) -> None:
        """Log the best score, where there is one."""
        if score is not None:
            self.tracker.log(self.run_id, step, {f"best_{self.metric}": score})

    def store_model(self, folder: Path) -> None:
        """Log the model in `folder`; without one this is a UserError, never silence."""
        if not (folder / "model.safetensors").is_file():
            raise UserError(
                f"the model of run {self.run_id} is not at {folder}: the worker wrote it to the disk of "
                "another machine, or it was removed. Use a --store that every node can read."
            )
        self.tracker.log_model(self.run_id, folder)

    def finish(self, report: TrialReport, model: Path) -> None:
        """End a training after its last report: its best score, its model, and then its state."""
        if report.failure:
            self.fail(report.failure, report.details)
            return
        self.log_best(report.step, report.best_score)
        self.store_model(model)
        self.end("complete", report.reason)

    def fail(self, reason: str, details: str = "") -> None:
        """End the run as failed; `details` (a traceback) becomes its artifact failure.txt."""
        if details:
            self.tracker.log_text(self.run_id, "failure.txt", details)
        self.end("failed", reason)

    def interrupt(self, reason: str = CONTINUES) -> None:
        self.end("interrupted", reason)

    def end(self, state: tags.State, reason: str = "") -> None:
        self.tracker.close_run(self.run_id, state, reason)


@contextlib.contextmanager
def closed_on_error(close: Callable[[str], None]) -> Iterator[None]:
    """Call `close` with one line about the error when the block raises, also at Ctrl-C."""
    try:
        yield
    except BaseException as error:
        with contextlib.suppress(Exception):  # the first error is the one to show
            close(f"{type(error).__name__}: {error}".splitlines()[0])
        raise
