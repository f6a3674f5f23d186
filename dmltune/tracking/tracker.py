"""Runs of a store: opened or continued, logged to in batches, ended, found, deleted."""

from __future__ import annotations

import contextlib
import json
import math
import re
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mlflow.entities import Metric, Param, RunTag
from mlflow.entities import Run as Run
from mlflow.exceptions import MlflowException
from mlflow.store.tracking.dbmodels.models import SqlParam

from dmltune import tags
from dmltune.errors import UserError, nearest, readable
from dmltune.provenance import has_ended, this_process
from dmltune.store import is_name
from dmltune.tracking.connection import all_pages
from dmltune.tracking.data_inputs import DataInput, log_inputs
from dmltune.tracking.files import RunFiles
from dmltune.tracking.models import RunModels
from dmltune.tracking.views import CUSTOM_MODELS, KIND
from dmltune.tracking.views import TAG as VIEW

_STATUS = {"complete": "FINISHED", "pruned": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}
LONGEST_PARAM, LONGEST_TAG, PARAMS_A_CALL = 6000, 8000, 100  # limits of MLflow's
SEARCH_PARAMS = "search."  # how a search was asked for, in the run of the search
PENDING = "pending"  # begins the ids of runs that the server has not made yet: pending/NAME/NUMBER
_RUN_ID = re.compile(r"[0-9a-f]{32}")


class Tracker(RunFiles, RunModels):
    """The runs and models of one store.

    A server that is away is an error here; `SpooledTracker` keeps what is written. `notes` are lines for the
    user.
    """

    @property
    def notes(self) -> deque[str]:
        return deque()

    def flush(self, seconds: float) -> None:
        """Wait until all that was written has arrived; here it has."""

    # ---- experiments and runs

    def experiment(self, space: str, about: str = "") -> str:
        """Return the id of the MLflow experiment of this space; a missing one is made."""
        existing = self.client.get_experiment_by_name(space)
        if existing is None:
            location = (self._store.artifacts / space).as_uri() if self._store.owns_tracking else None
            labels = {KIND: CUSTOM_MODELS, **({tags.NOTE: about} if about else {})}
            try:
                return self.client.create_experiment(space, artifact_location=location, tags=labels)
            except MlflowException:  # another process made it at the same time
                existing = self.client.get_experiment_by_name(space)
                if existing is None:
                    raise
        return str(existing.experiment_id)

    def share_view(self, experiment_id: str, key: str, view: Mapping[str, Any]) -> None:
        """Store a view of the experiment's page, which `view_link` opens."""
        self.client.set_experiment_tag(experiment_id, KIND, CUSTOM_MODELS)
        self.client.set_experiment_tag(experiment_id, f"{VIEW}{key}", json.dumps(view))

    def begin_run(
        self,
        experiment_id: str,
        name: str,
        key: Mapping[str, str],
        params: Mapping[str, Any],
        tags: Mapping[str, Any],
        parent: str | None = None,
        inputs: Sequence[DataInput] = (),
        started: int | None = None,
    ) -> tuple[str, bool]:
        """Return the id of the run with the tags `key`, and whether it is new.

        An existing run is continued and keeps its parameters. `started` is in milliseconds; without it: now.
        """
        runs = self.client.search_runs([experiment_id], _with_tags(key), max_results=1)
        link = {_PARENT_RUN: parent} if parent else {}
        labels = _run_tags({**link, **tags, **key, _RUN_NAME: name, _DRIVER: this_process()})
        if runs:
            run_id, known = str(runs[0].info.run_id), bool(runs[0].data.params)
            self.client.update_run(run_id, status="RUNNING")
            self.client.log_batch(run_id, tags=labels)
        else:
            # with its key from the start: a kill leaves no run that cannot be identified
            plain, known = {tag.key: tag.value for tag in labels}, False
            new = self.client.create_run(experiment_id, start_time=started, run_name=name, tags=plain)
            run_id = str(new.info.run_id)
        if not known:
            self.log_params(run_id, params)
            self.log_inputs(run_id, inputs)
        return run_id, not runs

    def log_params(self, run_id: str, params: Mapping[str, Any]) -> None:
        """Log parameters, in as few calls as MLflow's limit allows."""
        rows = [Param(key, str(value)[:LONGEST_PARAM]) for key, value in params.items()]
        for start in range(0, len(rows), PARAMS_A_CALL):
            self.client.log_batch(run_id, params=rows[start : start + PARAMS_A_CALL])

    def replace_params(self, run_id: str, params: Mapping[str, Any]) -> bool:
        """Let the run have these parameters in place of what `replace_params` has logged before.

        MLflow's parameters cannot be changed; those in a store's own database can. Return whether the run has
        these parameters and no other ones of their kind.
        """
        known = self.client.get_run(run_id).data.params
        wanted = {key: str(value)[:LONGEST_PARAM] for key, value in params.items()}
        fixed = {key for key in known if key.startswith(SEARCH_PARAMS)}
        outdated = [key for key, value in known.items() if key not in fixed and wanted.get(key) != value]
        if outdated and not self._store.owns_tracking:
            return False
        if outdated:
            self._delete_params(run_id, outdated)
        missing = {key: value for key, value in wanted.items() if key in outdated or key not in known}
        self.log_params(run_id, missing)
        return True

    def _delete_params(self, run_id: str, keys: Sequence[str]) -> None:
        table: Any = SqlParam
        with self.database.ManagedSessionMaker(read_only=False) as session:
            rows = session.query(table).filter(table.run_uuid == run_id, table.key.in_(keys))
            rows.delete(synchronize_session=False)

    def log_inputs(self, run_id: str, inputs: Sequence[DataInput]) -> None:
        """Log which data the run reads. The same input again changes nothing."""
        if inputs:
            log_inputs(self.client, run_id, inputs)

    def log(
        self,
        run_id: str,
        step: int,
        metrics: Mapping[str, float],
        *,
        data: DataInput | None = None,
        model_id: str = "",
        labels: Mapping[str, Any] | None = None,
        stamp: int | None = None,
    ) -> int:
        """Log the finite ones of `metrics` at `step`, and tags, in one call; return their time stamp.

        With a `model_id` they are metrics of that model too, measured on `data`.
        """
        now = stamp or now_ms()
        model = (model_id or None, data.name if data else None, data.digest if data else None)
        rows = [Metric(k, float(v), now, step, *model) for k, v in metrics.items() if math.isfinite(v)]
        if rows or labels:
            self.client.log_batch(run_id, metrics=rows, tags=_run_tags(labels or {}))
        return now

    def logged_steps(self, run_id: str, metric: str) -> set[int]:
        return {int(point.step) for point in self.client.get_metric_history(run_id, metric)}

    def curve(self, run_id: str) -> list[dict[str, float]]:
        """Return the metrics of each logged step of a run with its `step`, in the order of the steps."""
        points: dict[int, dict[str, float]] = {}
        for metric in self.client.get_run(run_id).data.metrics:
            for point in self.client.get_metric_history(run_id, metric):
                points.setdefault(int(point.step), {"step": int(point.step)})[metric] = float(point.value)
        return [points[step] for step in sorted(points)]

    def tag(self, run_id: str, values: Mapping[str, Any]) -> None:
        self.client.log_batch(run_id, tags=_run_tags(values))

    def close_run(
        self,
        run_id: str,
        state: tags.State,
        reason: str = "",
        *,
        step: int = 0,
        metrics: Mapping[str, float] | None = None,
        labels: Mapping[str, Any] | None = None,
        data: DataInput | None = None,
        model_id: str = "",
        stamp: int | None = None,
    ) -> None:
        """End the run, with last metrics. Its state, and why it failed or was stopped, become tags."""
        state_labels = {tags.STATE: state, tags.REASON: reason, **(labels or {})}
        self.log(run_id, step, metrics or {}, data=data, model_id=model_id, labels=state_labels, stamp=stamp)
        self.client.set_terminated(run_id, status=_STATUS[state], end_time=stamp)

    def close_stale(self) -> int:
        """End the runs that a killed driver on this machine left RUNNING; return how many."""
        closed = 0
        for run in self.runs(f"attributes.status = 'RUNNING' and tags.`{tags.DRIVER}` LIKE '%'"):
            if has_ended(run.data.tags.get(tags.DRIVER, "")):
                self.close_run(run.info.run_id, "interrupted", "the driver was killed")
                closed += 1
        return closed

    def find(self, name_or_run: str) -> Run | None:
        """Return the run with this id, or the parent run of the search or training with this name."""
        if _RUN_ID.fullmatch(name_or_run) and self._store.has_runs:
            with contextlib.suppress(MlflowException):
                return self.active_run(name_or_run)
        if not is_name(name_or_run) or not (experiments := self.experiment_ids()):
            return None
        key = {tags.NAME: name_or_run, tags.NUMBER: tags.PARENT}
        runs = self.client.search_runs(experiments, _with_tags(key), max_results=1)
        return runs[0] if runs else None

    def resolved(self, run_id: str) -> str:
        """Return MLflow's id of a run that was opened while the server was away; others are as they were."""
        if not run_id.startswith(f"{PENDING}/"):
            return run_id
        _, name, number = run_id.split("/")
        runs = self.runs_of({tags.NAME: name, tags.NUMBER: number})
        if not runs:
            raise MlflowException(f"run {number} of {name} is not in the tracking store")
        return str(runs[0].info.run_id)

    def runs_of(self, key: Mapping[str, str]) -> list[Run]:
        """Return the runs with these tags, the oldest first."""
        return sorted(self.runs(_with_tags(key)), key=lambda run: int(run.info.start_time))

    def active_run(self, run_id: str) -> Run:
        """Return the run; a deleted or missing one is an MlflowException."""
        run = self.client.get_run(run_id)
        if run.info.lifecycle_stage != "active":
            raise MlflowException(f"run {run_id} was deleted")
        return run

    def names(self) -> list[str]:
        """Return the names of all searches, trainings and checks."""
        parents = self.runs(f"tags.`{tags.NUMBER}` = '{tags.PARENT}'")
        return sorted({run.data.tags[tags.NAME] for run in parents if tags.NAME in run.data.tags})

    def unknown(self, what: str, name: str, more: Iterable[str] = ()) -> UserError:
        """Return the error for a name that no `what` of this store has."""
        names = self.names()
        hint = nearest(name, [*names, *more])
        listed = f"; there are {', '.join(names[:20])}" if names else f": {self._store.place} has no runs yet"
        return UserError(f"no {what} {readable(name)} in this store{hint or listed}")

    def runs(self, where: str) -> list[Run]:
        """Return the runs of all experiments that satisfy this filter of MLflow's."""
        experiments = self.experiment_ids()
        return list(self._pages(experiments, where)) if experiments else []

    def children(self, parent: Run) -> list[Run]:
        where = f"tags.`{tags.PARENT_RUN}` = '{parent.info.run_id}'"
        return list(self._pages([parent.info.experiment_id], where))

    def delete_run(self, run_id: str) -> None:
        """Delete a run with its files and models; on a tracking server `mlflow gc` deletes their rows."""
        run = self.client.get_run(run_id)
        self.delete_model(run)
        self.delete_files(run.info.artifact_uri)
        self.client.delete_run(run_id)
        if self._store.owns_tracking:
            self.database._hard_delete_run(run_id)  # as `mlflow gc` does

    def folders(self, run: Run) -> list[Path]:
        """Return the folders on this machine that hold the artifacts and the model of a run."""
        uris = [run.info.artifact_uri]
        if model_id := run.data.tags.get(tags.MODEL_ID):
            with contextlib.suppress(MlflowException):
                uris.append(self.client.get_logged_model(model_id).artifact_location)
        return [folder for uri in uris if (folder := self.local_folder(uri)) is not None]

    def _pages(self, experiments: list[str], where: str) -> Iterable[Run]:
        return all_pages(
            lambda token: self.client.search_runs(experiments, where, max_results=1000, page_token=token)
        )


# `tags` is an argument's name in open_run
_PARENT_RUN, _DRIVER, _RUN_NAME = tags.PARENT_RUN, tags.DRIVER, tags.RUN_NAME


def now_ms() -> int:
    """Return the time as MLflow has it."""
    return int(time.time() * 1000)


def _run_tags(values: Mapping[str, Any]) -> list[RunTag]:
    return [RunTag(key, str(value)[:LONGEST_TAG]) for key, value in values.items()]


def _with_tags(values: Mapping[str, str]) -> str:
    """Return a filter of MLflow's. Its language has no escape for quotes, so values must be plain names."""
    for value in values.values():
        if not is_name(value):
            raise UserError(f"a name must be letters, digits, '.', '_' or '-'; got {readable(value)}")
    return " and ".join(f"tags.`{key}` = '{value}'" for key, value in values.items())
