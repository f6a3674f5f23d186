"""Runs in MLflow: an experiment per space, a parent run per search, a child per trial.

Only this file imports mlflow. Everything is written by the driver through `MlflowClient` with explicit run
ids; there is no global active run. A run is identified by its tags (`tags.NAME`, `tags.NUMBER`), so writing
twice is writing once.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import re
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # a user's data stays on the user's machines
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")

from mlflow.artifacts import download_artifacts
from mlflow.entities import Metric, Param, RunTag
from mlflow.entities import Run as Run
from mlflow.exceptions import MlflowException
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
from mlflow.tracking import MlflowClient

from dmltune import tags
from dmltune.artifact_addresses import repair_addresses
from dmltune.errors import UserError, nearest, readable
from dmltune.provenance import has_ended, this_process
from dmltune.store import Store, is_name, without_password
from dmltune.tracking_server import require_answer

_STATUS = {"complete": "FINISHED", "pruned": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}
_RUN_ID = re.compile(r"[0-9a-f]{32}")
MODEL = "model"


class Tracker:
    """The runs of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        for name in ("alembic", "mlflow.store.db.utils", "mlflow.tracking.fluent"):
            logging.getLogger(name).setLevel(logging.ERROR)

    @cached_property
    def client(self) -> MlflowClient:
        """Connect, and create or migrate the database. A store that does not answer is a UserError."""
        uri = self._store.tracking_uri
        if self._store.owns_tracking:
            self._store.require_database("mlflow.db")
        else:
            require_answer(uri)
        try:
            with self._store.creation_lock():
                if self._store.owns_tracking:
                    repair_addresses(self._store.root / "mlflow.db", self._store.artifacts)
                client = MlflowClient(tracking_uri=uri)
                client.search_experiments(max_results=1)
        except UserError:
            raise
        except Exception as error:
            raise UserError(
                f"the tracking store does not answer: {without_password(uri)} ({type(error).__name__}). "
                "Check MLFLOW_TRACKING_URI or --store."
            ) from None
        return client

    # ---- experiments and runs

    def experiment(self, space: str) -> str:
        """Return the id of the MLflow experiment of this space; a missing one is made."""
        existing = self.client.get_experiment_by_name(space)
        if existing is not None:
            return str(existing.experiment_id)
        location = (self._store.artifacts / space).as_uri() if self._store.owns_tracking else None
        try:
            return self.client.create_experiment(space, artifact_location=location)
        except MlflowException:  # another process made it at the same time
            existing = self.client.get_experiment_by_name(space)
            if existing is None:
                raise
            return str(existing.experiment_id)

    def open_run(
        self,
        experiment_id: str,
        name: str,
        key: Mapping[str, str],
        params: Mapping[str, Any],
        tags: Mapping[str, Any],
        parent: str | None = None,
    ) -> str:
        """Return the id of the run with the tags `key`; an existing one is continued, a missing one made."""
        runs = self.client.search_runs([experiment_id], _with_tags(key), max_results=1)
        if runs:
            run_id = str(runs[0].info.run_id)
            self.client.update_run(run_id, status="RUNNING")
        else:
            link = {_PARENT_RUN: parent} if parent else {}
            # with its key from the start: a kill leaves no run that cannot be identified
            run_id = str(
                self.client.create_run(experiment_id, run_name=name, tags={**link, **key}).info.run_id
            )
        self.client.log_batch(
            run_id,
            params=[] if runs else [Param(k, str(v)[:6000]) for k, v in params.items()],
            tags=_run_tags({**tags, **key, _DRIVER: this_process()}),
        )
        return run_id

    def log(self, run_id: str, step: int, metrics: Mapping[str, float]) -> None:
        """Log the finite ones of `metrics` at `step`."""
        now = int(time.time() * 1000)
        finite = {k: float(v) for k, v in metrics.items() if math.isfinite(v)}
        self.client.log_batch(run_id, metrics=[Metric(k, v, now, step) for k, v in finite.items()])

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

    def close_run(self, run_id: str, state: tags.State, reason: str = "") -> None:
        """End the run; its state and why it failed or was stopped become tags."""
        self.tag(run_id, {tags.STATE: state, tags.REASON: reason})
        self.client.set_terminated(run_id, status=_STATUS[state])

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
        if _RUN_ID.fullmatch(name_or_run):
            with contextlib.suppress(MlflowException):
                return self.active_run(name_or_run)
        if not is_name(name_or_run):
            return None
        key = {tags.NAME: name_or_run, tags.NUMBER: tags.PARENT}
        experiments = [e.experiment_id for e in self.client.search_experiments()]
        runs = self.client.search_runs(experiments, _with_tags(key), max_results=1)
        return runs[0] if runs else None

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
        listed = f"; there are {', '.join(names[:20])}" if names and not hint else ""
        return UserError(f"no {what} {readable(name)} in this store{hint or listed}")

    def runs(self, where: str) -> list[Run]:
        """Return the runs of all experiments that satisfy this filter of MLflow's."""
        return list(self._pages([e.experiment_id for e in self.client.search_experiments()], where))

    def children(self, parent: Run) -> list[Run]:
        where = f"tags.`{tags.PARENT_RUN}` = '{parent.info.run_id}'"
        return list(self._pages([parent.info.experiment_id], where))

    def delete_run(self, run_id: str) -> None:
        """Delete a run with its files; on a tracking server `mlflow gc` deletes its rows."""
        uri = self.client.get_run(run_id).info.artifact_uri
        repository: Any = get_artifact_repository(uri, tracking_uri=self._store.tracking_uri)
        repository.delete_artifacts()
        self.client.delete_run(run_id)
        if self._store.owns_tracking:
            rows: Any = self.client._tracking_client.store
            rows._hard_delete_run(run_id)  # as `mlflow gc` does
            with contextlib.suppress(OSError):
                (self._store.artifacts / Path(uri).parents[1].name / run_id).rmdir()

    # ---- files

    def log_model(self, run_id: str, folder: Path) -> None:
        """Log the files of a trained embedder (safetensors and JSON, no pickle) as the artifact `model`."""
        self.client.log_artifacts(run_id, str(folder), MODEL)
        self.tag(run_id, {tags.MODEL: tags.STORED})

    def drop_model(self, run_id: str) -> None:
        """Delete the model of a trial that better ones have overtaken."""
        uri = self.client.get_run(run_id).info.artifact_uri
        repository: Any = get_artifact_repository(uri, tracking_uri=self._store.tracking_uri)
        repository.delete_artifacts(MODEL)
        self.tag(run_id, {tags.MODEL: "dropped: others did better"})

    def has_model(self, run_id: str) -> bool:
        return bool(self.client.get_run(run_id).data.tags.get(tags.MODEL) == tags.STORED)

    @contextlib.contextmanager
    def model_folder(self, run_id: str) -> Iterator[Path | None]:
        """Yield a temporary folder with the model of this run; None when it has none."""
        if not self.has_model(run_id):
            yield None
            return
        with tempfile.TemporaryDirectory(prefix="dmltune-") as scratch:
            try:
                folder = download_artifacts(
                    run_id=run_id,
                    artifact_path=MODEL,
                    dst_path=scratch,
                    tracking_uri=self._store.tracking_uri,
                )
            except (MlflowException, OSError) as error:
                raise UserError(
                    f"the model of run {run_id} cannot be read ({type(error).__name__}): its artifacts are "
                    "not where the store says. Put the store back to its place, or train the model again."
                ) from None
            yield Path(folder)

    def log_file(self, run_id: str, path: Path, folder: str | None = None) -> None:
        self.client.log_artifact(run_id, str(path), folder)

    def log_json(self, run_id: str, name: str, document: Any) -> None:
        self.log_text(run_id, name, json.dumps(document, indent=1))

    def log_text(self, run_id: str, name: str, text: str) -> None:
        with tempfile.TemporaryDirectory(prefix="dmltune-") as scratch:
            path = Path(scratch) / name
            path.write_text(text, encoding="utf-8")
            self.client.log_artifact(run_id, str(path))

    def read_json(self, run_id: str, name: str) -> Any:
        """Return the JSON artifact `name` of a run; None when it has none. A damaged one is a UserError."""
        try:
            if name not in {file.path for file in self.client.list_artifacts(run_id)}:
                return None
            with tempfile.TemporaryDirectory(prefix="dmltune-") as scratch:
                text = Path(self.client.download_artifacts(run_id, name, scratch)).read_text(encoding="utf-8")
            return json.loads(text)
        except (MlflowException, OSError, ValueError) as error:
            raise UserError(
                f"{name} of run {run_id} cannot be read ({type(error).__name__}). Restore the store from a "
                "backup, or run the same command under another --name."
            ) from None

    def _pages(self, experiments: list[str], where: str) -> Iterable[Run]:
        token = None
        while True:
            page = self.client.search_runs(experiments, where, max_results=1000, page_token=token)
            yield from page
            token = page.token
            if not token:
                return


_PARENT_RUN, _DRIVER = tags.PARENT_RUN, tags.DRIVER  # `tags` is an argument's name in open_run


def _run_tags(values: Mapping[str, Any]) -> list[RunTag]:
    return [RunTag(key, str(value)[:5000]) for key, value in values.items()]


def _with_tags(values: Mapping[str, str]) -> str:
    """Return a filter of MLflow's. Its language has no escape for quotes, so values must be plain names."""
    for value in values.values():
        if not is_name(value):
            raise UserError(f"a name must be letters, digits, '.', '_' or '-'; got {readable(value)}")
    return " and ".join(f"tags.`{key}` = '{value}'" for key, value in values.items())
