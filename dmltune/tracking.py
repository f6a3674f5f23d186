"""Runs in MLflow: an experiment per space, a parent run per search, a child per trial. No other file does.

Everything is written by the driver through `MlflowClient` with explicit run ids: no global active run,
nothing to leak between trials. A run is found again by its tags (`dmltune.search`, `dmltune.number`), so
writing twice is writing once.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # a user's data stays on the user's machines
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")

import psutil
from mlflow.artifacts import download_artifacts
from mlflow.entities import Metric, Param, RunTag
from mlflow.entities import Run as Run
from mlflow.exceptions import MlflowException
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
from mlflow.tracking import MlflowClient

from dmltune.errors import UserError
from dmltune.store import Store, without_password

State = Literal["complete", "pruned", "failed", "interrupted"]
_STATUS = {"complete": "FINISHED", "pruned": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}
MODEL = "model"


class Tracker:
    """What dmltune says to MLflow about one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        _quiet_migrations()

    @cached_property
    def client(self) -> MlflowClient:
        try:
            with self._store.creating():
                client = MlflowClient(tracking_uri=self._store.tracking_uri)
                client.search_experiments(max_results=1)  # creates and migrates the database
        except Exception as error:
            raise UserError(
                f"the tracking store does not answer: {without_password(self._store.tracking_uri)} "
                f"({type(error).__name__}). Check MLFLOW_TRACKING_URI or --store."
            ) from None
        return client

    # ---- experiments and runs

    def experiment(self, space: str) -> str:
        """The id of the MLflow experiment of this space."""
        found = self.client.get_experiment_by_name(space)
        if found is not None:
            return str(found.experiment_id)
        location = (self._store.artifacts / space).as_uri() if self._store.owns_tracking else None
        try:
            return self.client.create_experiment(space, artifact_location=location)
        except MlflowException:  # somebody made it at the same time
            again = self.client.get_experiment_by_name(space)
            if again is None:
                raise
            return str(again.experiment_id)

    def open_run(
        self,
        experiment_id: str,
        name: str,
        key: Mapping[str, str],
        params: Mapping[str, Any],
        tags: Mapping[str, Any],
        parent: str | None = None,
    ) -> str:
        """The run that carries the tags `key`: opened again when it is there, made when it is not. Returns
        its id.
        """
        tags = {**tags, **key, "dmltune.driver": this_process()}
        runs = self.client.search_runs([experiment_id], _where(key), max_results=1)
        if runs:
            run_id = str(runs[0].info.run_id)
            self.client.update_run(run_id, status="RUNNING")
        else:
            if parent:
                tags["mlflow.parentRunId"] = parent
            run_id = str(self.client.create_run(experiment_id, run_name=name, tags={}).info.run_id)
        self.client.log_batch(
            run_id,
            params=[] if runs else [Param(k, str(v)[:6000]) for k, v in params.items()],
            tags=[RunTag(k, str(v)[:5000]) for k, v in tags.items()],
        )
        return run_id

    def log(self, run_id: str, step: int, metrics: Mapping[str, float]) -> None:
        now = int(time.time() * 1000)
        finite = {k: float(v) for k, v in metrics.items() if math.isfinite(v)}
        self.client.log_batch(run_id, metrics=[Metric(k, v, now, step) for k, v in finite.items()])

    def logged_steps(self, run_id: str, metric: str) -> set[int]:
        return {int(point.step) for point in self.client.get_metric_history(run_id, metric)}

    def tag(self, run_id: str, tags: Mapping[str, Any]) -> None:
        self.client.log_batch(run_id, tags=[RunTag(k, str(v)[:5000]) for k, v in tags.items()])

    def close_run(self, run_id: str, state: State, reason: str = "") -> None:
        """End the run; why it failed or was stopped is visible as the tags `dmltune.state` and
        `dmltune.reason`.
        """
        self.tag(run_id, {"dmltune.state": state, "dmltune.reason": reason})
        self.client.set_terminated(run_id, status=_STATUS[state])

    def close_stale(self) -> int:
        """End the runs that a killed driver on this machine left RUNNING; returns how many."""
        closed = 0
        for run in self.runs("attributes.status = 'RUNNING' and tags.`dmltune.driver` LIKE '%'"):
            if _is_dead(run.data.tags.get("dmltune.driver", "")):
                self.close_run(run.info.run_id, "interrupted", "the driver was killed")
                closed += 1
        return closed

    def find(self, name_or_run: str) -> Run | None:
        """A run by its id, or the parent run of the search or training with this name."""
        try:
            return self.client.get_run(name_or_run)
        except MlflowException:
            experiments = [e.experiment_id for e in self.client.search_experiments()]
            key = {"dmltune.search": name_or_run, "dmltune.number": "parent"}
            runs = self.client.search_runs(experiments, _where(key), max_results=1)
            return runs[0] if runs else None

    def names(self) -> list[str]:
        """The names of all searches and trainings."""
        return sorted(
            {run.data.tags["dmltune.search"] for run in self.runs("tags.`dmltune.number` = 'parent'")}
        )

    def runs(self, where: str) -> list[Run]:
        """The runs of all experiments for which this filter of MLflow's is true."""
        return list(self._pages([e.experiment_id for e in self.client.search_experiments()], where))

    def children(self, parent: Run) -> list[Run]:
        where = f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'"
        return list(self._pages([parent.info.experiment_id], where))

    # ---- files

    def log_model(self, run_id: str, folder: Path) -> None:
        """The files of a trained embedder (safetensors and JSON, nothing pickled) as the artifact `model`."""
        self.client.log_artifacts(run_id, str(folder), MODEL)
        self.tag(run_id, {"dmltune.model": "yes"})

    def drop_model(self, run_id: str) -> None:
        """Other trials did better: their checkpoints are kept, this one is not."""
        uri = self.client.get_run(run_id).info.artifact_uri
        repository: Any = get_artifact_repository(uri, tracking_uri=self._store.tracking_uri)
        repository.delete_artifacts(MODEL)
        self.tag(run_id, {"dmltune.model": "dropped: others did better"})

    def model_folder(self, run_id: str) -> Path | None:
        """A local folder with the model of this run; None when it has none."""
        if self.client.get_run(run_id).data.tags.get("dmltune.model") != "yes":
            return None
        return Path(
            download_artifacts(run_id=run_id, artifact_path=MODEL, tracking_uri=self._store.tracking_uri)
        )

    def log_file(self, run_id: str, path: Path, folder: str | None = None) -> None:
        self.client.log_artifact(run_id, str(path), folder)

    def log_json(self, run_id: str, name: str, document: Any) -> None:
        self.log_text(run_id, name, json.dumps(document, indent=1))

    def log_text(self, run_id: str, name: str, text: str) -> None:
        with tempfile.TemporaryDirectory(prefix="dmltune-") as scratch:
            path = Path(scratch) / name
            path.write_text(text)
            self.client.log_artifact(run_id, str(path))

    def _pages(self, experiments: list[str], where: str) -> Iterable[Run]:
        token = None
        while True:
            page = self.client.search_runs(experiments, where, max_results=1000, page_token=token)
            yield from page
            token = page.token
            if not token:
                return


def this_process() -> str:
    """host:pid:start, which names a process even after its pid was given to another."""
    me = psutil.Process()
    return f"{socket.gethostname()}:{me.pid}:{int(me.create_time())}"


def about_versions() -> dict[str, str]:
    """Tags that say what code made a run."""
    versions = {
        f"version.{name}": metadata.version(name) for name in ("dmltune", "torch", "ray", "optuna", "mlflow")
    }
    commit = _git_commit()
    return versions | ({"git.commit": commit} if commit else {})


def _git_commit() -> str | None:
    git = shutil.which("git")
    if git is None:
        return None
    where = Path(__file__).parent
    asked = [git, "-C", str(where), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    answer = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=False)
    return answer.stdout.strip() or None


def _is_dead(driver: str) -> bool:
    host, _, rest = driver.partition(":")
    pid, _, started = rest.partition(":")
    if host != socket.gethostname() or not pid.isdigit():
        return False
    try:
        return int(psutil.Process(int(pid)).create_time()) != int(started)
    except (psutil.NoSuchProcess, ValueError):
        return True


def _where(tags: Mapping[str, str]) -> str:
    return " and ".join(f"tags.`{key}` = '{value}'" for key, value in tags.items())


def _quiet_migrations() -> None:
    import logging

    for name in ("alembic", "mlflow.store.db.utils", "mlflow.tracking.fluent"):
        logging.getLogger(name).setLevel(logging.ERROR)
