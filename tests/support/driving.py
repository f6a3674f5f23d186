"""Real searches, run as a user runs them: the command line in a process of its own, a store of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mlflow
import optuna
import psutil
from optuna.trial import FrozenTrial

from support.fork_server import ForkedProcess
from support.stores import new_store

SMALL = ("data.classes=40", "data.size=16", "batch.size=16", "scheduler=none")
QUICK = (*SMALL, "max_steps=8", "validate_every=4")
PATIENCE_S = 240.0  # for one thing to happen on a machine that is busy with other tests
LOOK_S, POLL_S = 0.5, 0.1  # a list of all processes takes 10 ms


@dataclass
class Driver:
    """A `dmltune` command that runs, and everything it started."""

    process: ForkedProcess
    log: Path
    out: Path
    seen: dict[int, psutil.Process] = field(default_factory=dict)
    looked: float = 0.0

    def look(self, at_most_every: float = 0.0) -> None:
        """Remember all processes of the tree: children of a dead parent are not found later."""
        if time.monotonic() < self.looked + at_most_every:
            return
        self.looked = time.monotonic()
        try:
            tree = psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return
        self.seen.update({child.pid: child for child in tree})

    def wait_for(self, condition: Callable[[], Any], what: str) -> Any:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            self.look(LOOK_S)
            if value := condition():
                return value
            assert self.process.poll() is None, f"ended before: {what}\n{self.text}"
            time.sleep(POLL_S)
        raise AssertionError(f"did not happen in {PATIENCE_S:.0f} s: {what}\n{self.text}")

    def finish(self) -> tuple[int, str]:
        """Exit code and standard output."""
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None and time.monotonic() < deadline:
            self.look(LOOK_S)
            time.sleep(POLL_S)
        return self.process.wait(5), self.out.read_text()

    @property
    def text(self) -> str:
        return self.log.read_text()

    def workers(self) -> list[psutil.Process]:
        """The processes that train."""
        return self.processes("RayTrainWorker")

    def processes(self, title: str) -> list[psutil.Process]:
        self.look()
        return [p for p in self.alive() if title in _title(p)]

    def alive(self) -> list[psutil.Process]:
        return [p for p in self.seen.values() if p.is_running() and _status(p) != psutil.STATUS_ZOMBIE]


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _status(process: psutil.Process) -> str:
    try:
        return str(process.status())
    except psutil.Error:
        return psutil.STATUS_ZOMBIE


@dataclass(frozen=True)
class Place:
    """A folder with a store, where commands are run."""

    folder: Path
    drivers: list[Driver] = field(default_factory=list)

    def __post_init__(self) -> None:
        new_store(self.store)

    def clean_up(self) -> None:
        """Nothing that a failed test started goes on."""
        for driver in self.drivers:
            driver.look()
            for process in [driver.process, *driver.alive()]:
                with contextlib.suppress(ProcessLookupError, psutil.Error):
                    process.kill()
            driver.process.wait(10)

    @property
    def store(self) -> Path:
        return self.folder / "mlruns"

    def start(self, *words: str, **environment: str) -> Driver:
        log, out = (self.folder / f"{name}-{time.monotonic_ns()}.txt" for name in ("log", "out"))
        with open(log, "w") as errors, open(out, "w") as output:
            process = ForkedProcess(words, self.folder, os.environ | environment, output, errors)
        self.drivers.append(Driver(process, log, out))
        return self.drivers[-1]

    def study(self, name: str) -> list[FrozenTrial]:
        """The trials as the study has them."""
        storage = f"sqlite:///{self.store / 'optuna.db'}"
        return optuna.load_study(study_name=name, storage=storage).get_trials()

    def runs(self, name: str) -> dict[str, Any]:
        """The runs of a search, check or study in MLflow, by their number or member name."""
        client = mlflow.MlflowClient(f"sqlite:///{self.store / 'mlflow.db'}")
        experiments = [e.experiment_id for e in client.search_experiments()]
        found = client.search_runs(experiments, f"tags.`dmltune.search` = '{name}'")
        by_number = {run.data.tags["dmltune.number"]: run for run in found}
        assert len(by_number) == len(found)  # none has two runs
        return by_number

    def steps(self, run: Any) -> list[int]:
        """The steps whose MAP@R is in the run."""
        client = mlflow.MlflowClient(f"sqlite:///{self.store / 'mlflow.db'}")
        return [point.step for point in client.get_metric_history(run.info.run_id, "map_at_r")]

    def step(self, name: str, number: int) -> int:
        """The last validated step of a trial, 0 while there is none. Only looks: it may be being made."""
        query = """
            select max(v.step) from trial_intermediate_values v join trials t on t.trial_id = v.trial_id
            join studies s on s.study_id = t.study_id where s.study_name = ? and t.number = ?
        """
        try:
            with contextlib.closing(
                sqlite3.connect(f"file:{self.store}/optuna.db?mode=ro", uri=True)
            ) as looking:
                return int(looking.execute(query, (name, number)).fetchone()[0] or 0)
        except sqlite3.OperationalError:
            return 0

    def run(self, *words: str, **environment: str) -> tuple[int, str, str]:
        """Exit code, standard output, standard error."""
        driver = self.start(*words, **environment)
        code, out = driver.finish()
        return code, out, driver.text

    def search(self, name: str, *words: str) -> dict[str, Any]:
        code, out, errors = self.run("search", "glyphs-ccp", *words, "--name", name, "-f", "json")
        assert code == 0, errors
        document: dict[str, Any] = json.loads(out)
        return document


def kill(process: psutil.Process | ForkedProcess) -> None:
    """kill -9."""
    os.kill(process.pid, signal.SIGKILL)
