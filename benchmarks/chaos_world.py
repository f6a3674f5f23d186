"""The processes of a search that chaos.py breaks: a Ray cluster, MLflow's server, PostgreSQL, the driver."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import optuna
import psutil
import sqlalchemy
from support.clusters import ENVIRONMENT, Cluster, running_cluster
from support.postgres import is_installed, postgres
from support.tracking_server import mlflow_server, proxy_before

NAME = "chaos"
SMALL = ("data.classes=40", "data.size=16", "batch.size=16", "max_steps=120", "validate_every=20")
STEPS = tuple(range(0, 121, 20))  # of a complete trial's validations
FULL_MB = 48  # of the store
PATIENCE_S = 300.0
_SUBREAPER = 36  # prctl: orphans become children of this process
_FIGURES = "SELECT COUNT(*) FROM trial_intermediate_values"


class World:
    """All processes of a search. Leaving it ends them."""

    def __init__(self, folder: Path, on_cluster: bool, trials: int, more: int) -> None:
        self.folder, self.store, self.temporary = folder, folder / "store", folder / "t"
        self.on_cluster, self.trials, self.more = on_cluster, trials, more
        self.began, self.starts = time.monotonic(), 0
        self.ends: list[int] = []  # exit codes of drivers that were not killed
        self.problems: list[str] = []
        self.cluster: Cluster | None = None
        self._cluster_exit = contextlib.ExitStack()
        self._exits = contextlib.ExitStack()
        self.driver: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> World:
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
        for folder in (self.store, self.temporary):
            folder.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={FULL_MB}m", "tmpfs", str(self.store)]
        self.small_disk = subprocess.run(mount, capture_output=True).returncode == 0
        if self.small_disk:
            self._exits.callback(subprocess.run, ["umount", "-l", str(self.store)], check=False)
        self.database = self._exits.enter_context(postgres("mlflow", "optuna")) if is_installed() else None
        runs = self.database.uri("mlflow") if self.database else ""
        self.mlflow = self._exits.enter_context(mlflow_server(self.folder / "server", runs))
        self.proxy = self._exits.enter_context(proxy_before(self.mlflow.port))
        if self.on_cluster:
            self.start_cluster()
        return self

    def __exit__(self, *_: object) -> None:
        if self.driver is not None and self.driver.poll() is None:
            self.driver.kill()
            self.driver.wait(10)
        self.stop_cluster()
        self._exits.close()

    @property
    def studies(self) -> str:
        return self.database.uri("optuna") if self.database else f"sqlite:///{self.store / 'optuna.db'}"

    # ---- cluster and driver

    def start_cluster(self) -> None:
        with _environment({"TMPDIR": str(self.temporary)}):  # for what workers leave
            self.cluster = self._cluster_exit.enter_context(running_cluster(cpus=1))
            self.cluster.add_node("second")

    def stop_cluster(self) -> None:
        self._cluster_exit.close()
        self.cluster = None

    def environment(self) -> dict[str, str]:
        own = {
            "TMPDIR": str(self.temporary),
            "MLFLOW_TRACKING_URI": self.proxy.uri,
            "MLFLOW_HTTP_REQUEST_TIMEOUT": "5",
            "DMLTUNE_OPTUNA_STORAGE": self.studies if self.database else "",
            "DMLTUNE_HUNG_AFTER": "60",
            "DMLTUNE_TRACKING_WAIT": "60",
            "OMP_NUM_THREADS": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            **(ENVIRONMENT if self.on_cluster else {}),
        }
        return {key: value for key, value in {**os.environ, **own}.items() if value}

    def start_driver(self) -> None:
        command = [
            sys.executable,
            "-X",
            "faulthandler",
            "-m",
            "dmltune",
            "search",
            "glyphs-ccp",
            *SMALL,
            "scheduler=none",
        ]
        command += ["--trials", str(self.trials), "--name", NAME, "--store", str(self.store)]
        if self.cluster is not None:
            command += ["--address", self.cluster.address]
        self.note(f"start {self.starts + 1}")
        with open(self.folder / "driver.txt", "ab") as log:
            self.driver = subprocess.Popen(command, stdout=log, stderr=log, env=self.environment())
        self.starts += 1

    def note(self, text: str) -> None:
        """Write a line between those of the drivers."""
        with open(self.folder / "driver.txt", "ab") as log:
            log.write(f"--- {time.monotonic() - self.began:.0f} s: {text}\n".encode())

    def keep_going(self) -> None:
        """Start the driver again when it has ended; a search that is finished gets more trials."""
        if self.driver is None or self.driver.poll() is None:
            return
        self.ends.append(self.driver.returncode)
        self.note(f"the driver has ended with exit code {self.driver.returncode}")
        if self.driver.returncode == 0:
            self.trials += self.more
        self.start_driver()

    def watch(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.look()
            self.keep_going()
            time.sleep(0.5)

    def finish(self) -> None:
        """Let the search end by the same command, without more faults."""
        for _ in range(6):
            assert self.driver is not None
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.driver.wait(PATIENCE_S)
            if self.driver.returncode == 0:
                return
            if self.driver.poll() is None:
                self.driver.kill()
                self.driver.wait(10)
            self.start_driver()
        raise SystemExit(f"the search does not end:\n{self.log()[-3000:]}")

    # ---- what is seen

    def look(self) -> list[psutil.Process]:
        """Return all living processes that this program has caused."""
        alive = []
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error, ChildProcessError):
                if process.status() != psutil.STATUS_ZOMBIE:
                    alive.append(process)
                elif process.ppid() == os.getpid() and process.pid != getattr(self.driver, "pid", 0):
                    os.waitpid(process.pid, os.WNOHANG)
        return alive

    def log(self) -> str:
        return (self.folder / "driver.txt").read_text(errors="replace")

    def scores(self) -> int:
        """Return how many validations the study has."""
        engine = sqlalchemy.create_engine(self.studies, poolclass=sqlalchemy.pool.NullPool)
        with contextlib.suppress(sqlalchemy.exc.SQLAlchemyError), engine.connect() as connection:
            return int(connection.exec_driver_sql(_FIGURES).scalar_one())
        return 0

    def trials_of_study(self) -> list[optuna.trial.FrozenTrial]:
        return optuna.load_study(study_name=NAME, storage=self.studies).trials

    def wait_for_progress(self, before: int, seconds: float) -> None:
        until, ends = time.monotonic() + seconds, len(self.ends)
        while self.scores() <= before:
            self.look()
            self.keep_going()
            if time.monotonic() > until or len(self.ends) > ends + 5:
                raise SystemExit(f"no validation for {seconds:.0f} s, or 6 ends:\n{self.log()[-3000:]}")
            time.sleep(0.25)

    def notes(self) -> list[str]:
        """Return what the driver said about faults, each once, and every traceback."""
        signs = ("tracking server", "disk", "Ray ", "workers died", "room for", "database", "lost", "Error")
        signs += ("Traceback",)
        lines = [line[:200] for line in self.log().splitlines() if any(sign in line for sign in signs)]
        return list(dict.fromkeys(lines))[:40]

    def left_over(self) -> list[str]:
        """Return the processes that outlive this world."""
        until = time.monotonic() + 20
        while (alive := self.look()) and time.monotonic() < until:
            time.sleep(0.5)
        return [f"process {process.pid} {title_of(process)[:100]}" for process in alive]


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def title_of(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""
