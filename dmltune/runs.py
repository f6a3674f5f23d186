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
from dmltune.provenance import source_tags, this_process, version_tags
from dmltune.tracking import DataInput, Tracker

if TYPE_CHECKING:
    from dmltune.experiment import Experiment
    from dmltune.tracking.data_inputs import Context
    from dmltune.train.orders import TrialReport

CONTINUES = "the same command continues"
ONLY_SEARCHES = (
    *("about", "search", "require", "balanced", "sampler", "scheduler", "trials", "noise_seeds"),
    *("repeat_share", "stop_at_noise", "reference_point", "baseline"),
)


def provenance(experiment: Experiment, fingerprint: str) -> dict[str, Any]:
    """Return the tags that say what made a run: seed, data, protocol, user, command, commit, versions."""
    return {
        tags.SEED: experiment.seed,
        tags.DATA: f"{experiment.data.name}:{fingerprint}",
        tags.PROTOCOL: experiment.objective.protocol,
        **source_tags(),
        **version_tags(),
    }


def training_params(experiment: Experiment) -> dict[str, Any]:
    """Return dotted key → value of all that determines a training, without what only a search reads."""
    settings = experiment.settings()
    return {key: value for key, value in settings.items() if key.split(".")[0] not in ONLY_SEARCHES}


def data_inputs(experiment: Experiment, fingerprint: str) -> tuple[DataInput, ...]:
    """Return what a training reads: the images that it learns from, and those that validate it.

    Data without a fingerprint are no input.
    """
    if not fingerprint:
        return ()
    data, conventional = experiment.data, experiment.objective.protocol == "conventional"
    source = data.path or f"dmltune data {data.name}"
    part = f"{data.name}/fold{experiment.fold}"
    validation: tuple[str, Context] = (f"{part}/validation", "validation")
    if conventional:  # it validates on the test half
        part, validation = data.name, (f"{data.name}/test", "test")
    return (
        DataInput(f"{part}/train", fingerprint, "training", str(source)),
        DataInput(validation[0], fingerprint, validation[1], str(source)),
    )


@dataclass
class TrackedRun:
    """One run of `Tracker`. `metric` is the objective's; its best value is logged as `best_<metric>`."""

    tracker: Tracker
    run_id: str
    metric: str
    run_name: str = ""
    params: Mapping[str, Any] = field(default_factory=dict, repr=False)
    validated_on: DataInput | None = None
    _logged_steps: set[int] | None = field(default=None, init=False, repr=False)
    _stamps: dict[int, int] = field(default_factory=dict, init=False, repr=False)  # of this session's steps
    _model_id: str = field(default="", init=False, repr=False)

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
        inputs: tuple[DataInput, ...] = (),
    ) -> TrackedRun:
        """Open the run `number` of `name`; an existing one is continued and keeps its parameters.

        `inputs` are the data that it trains on, and last those that validate it.
        """
        run_name = run_name or name
        colour = tags.COLOURS["parent" if number == tags.PARENT and role == "search" else role]
        labels = {tags.ROLE: role, tags.STATE: "running", tags.REASON: "", tags.COLOUR: colour}
        run_id, is_new = tracker.begin_run(
            experiment_id,
            run_name,
            key={tags.NAME: name, tags.NUMBER: number},
            params=params,
            tags={**about, **labels},
            parent=parent.run_id if parent else None,
            inputs=inputs,
        )
        run = cls(tracker, run_id, metric, run_name, params, inputs[-1] if inputs else None)
        run._logged_steps = set() if is_new else None
        return run

    def reopen(self, about: Mapping[str, Any]) -> None:
        """Continue the run in this process, with the tags of what makes it now."""
        self.tracker.client.update_run(self.run_id, status="RUNNING")
        shown = {tags.RUN_NAME: self.run_name, tags.COLOUR: tags.COLOURS["parent"]} if self.run_name else {}
        state = {tags.STATE: "running", tags.REASON: "", tags.DRIVER: this_process()}
        self.tag({**about, **state, **shown})

    def log(self, report: TrialReport) -> None:
        """Log the metrics of one validation, unless its step is logged already."""
        if report.failure:
            return
        if self._logged_steps is None:
            self._logged_steps = self.tracker.logged_steps(self.run_id, self.metric)
        if report.step not in self._logged_steps:
            metrics = {**report.metrics, **report.system}
            self._stamps[report.step] = self.tracker.log(self.run_id, report.step, metrics)
            self._logged_steps.add(report.step)

    def tag(self, values: Mapping[str, Any]) -> None:
        self.tracker.tag(self.run_id, values)

    def log_best(self, step: int, score: float | None) -> None:
        """Log the best score, where there is one."""
        if score is not None:
            self.tracker.log(self.run_id, step, {f"best_{self.metric}": score})

    def store_model(self, folder: Path) -> None:
        """Store the model in `folder`; without one this is a UserError, never silence."""
        if not (folder / "model.safetensors").is_file():
            raise UserError(
                f"the model of run {self.run_id} is not at {folder}: the worker wrote it to the disk of "
                "another machine, or it was removed. Use a --store that every node can read."
            )
        self._model_id = self.tracker.log_model(
            self.run_id,
            folder,
            name=self.run_name or "model",
            params=self.params,
            validated_on=self.validated_on,
            stamps=self._stamps,
        )

    def finish(self, report: TrialReport, model: Path) -> None:
        """End a training after its last report: its best score, its model, and then its state."""
        if report.failure:
            self.fail(report.failure, report.details)
            return
        self.store_model(model)
        labels = self.log_images(model.parent / "images")
        self.end("complete", report.reason, step=report.step, best=report.best_score, labels=labels)

    def log_images(self, folder: Path) -> dict[str, Any]:
        """Log the pictures of the validations in one call, where there are some; return the tag they need."""
        if not folder.is_dir():
            return {}
        self.tracker.log_folder(self.run_id, folder, "images")
        return {tags.IMAGES: True}

    def fail(self, reason: str, details: str = "", **last: Any) -> None:
        """End the run as failed; `details` (a traceback) becomes its artifact failure.txt."""
        if details:
            self.tracker.log_text(self.run_id, "failure.txt", details)
        self.end("failed", reason, **last)

    def interrupt(self, reason: str = CONTINUES) -> None:
        self.end("interrupted", reason)

    def end(
        self,
        state: tags.State,
        reason: str = "",
        *,
        step: int = 0,
        best: float | None = None,
        labels: Mapping[str, Any] | None = None,
    ) -> None:
        """End the run, with its best score where there is one.

        A run that is not complete shows its state in its name and its colour.
        """
        shown = {}
        if state != "complete" and self.run_name:
            shown = {tags.RUN_NAME: f"{self.run_name} ({state})", tags.COLOUR: tags.COLOURS[state]}
        metrics = {} if best is None else {f"best_{self.metric}": best}
        labels = {**shown, **(labels or {})}
        self.tracker.close_run(
            self.run_id,
            state,
            reason,
            step=step,
            metrics=metrics,
            labels=labels,
            data=self.validated_on,
            model_id=self._model_id,
        )


@contextlib.contextmanager
def closed_on_error(close: Callable[[str], None]) -> Iterator[None]:
    """Call `close` with one line about the error when the block raises, also at Ctrl-C."""
    try:
        yield
    except BaseException as error:
        with contextlib.suppress(Exception):  # the first error is the one to show
            close(f"{type(error).__name__}: {error}".splitlines()[0])
        raise
