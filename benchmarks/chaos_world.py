"""What chaos.py breaks: a Ray cluster, MLflow's server behind a proxy, PostgreSQL, and a search's driver."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import optuna
import psutil
from ray.cluster_utils import Cluster
from support.postgres import is_installed, postgres
from support.tracking_server import mlflow_server, proxy_before

NAME = "chaos"
SMALL = ("data.classes=40", "data.size=16", "batch.size=16", "max_steps=24", "validate_every=4")
FULL_MB = 96
_SMALL_NODE = {"object_store_memory": 80 * 2**20, "node_ip_address": "127.0.0.1"}
PATIENCE_S = 300.0


class World:
    """All processes of a search on a cluster. Leaving it ends them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store = folder, folder / "store"
        self.began, self.starts, self.trials = time.monotonic(), 0, 4
        self._exits = contextlib.ExitStack()
        self._driver: subprocess.Popen[bytes] | None = None
        self._cluster: Any = None
        self._nodes: list[Any] = []
        self._lock = threading.Lock()
        self.seen: dict[int, psutil.Process] = {}

    def __enter__(self) -> World:
        self.store.mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={FULL_MB}m", "tmpfs", str(self.store)], capture_output=True
        )
        if mounted.returncode == 0:
            self._exits.callback(subprocess.run, ["umount", "-l", str(self.store)], check=False)
        self.small_disk = mounted.returncode == 0
        self._database = self._exits.enter_context(postgres("mlflow", "optuna")) if is_installed() else None
        runs = self._database.uri("mlflow") if self._database else ""
        self._mlflow = self._exits.enter_context(mlflow_server(self.folder / "server", runs))
        self._proxy = self._exits.enter_context(proxy_before(self._mlflow.port))
        self._start_cluster()
        return self

    def __exit__(self, *_: object) -> None:
        self.look()
        if self._driver is not None and self._driver.poll() is None:
            self._driver.kill()
        self._stop_cluster()
        self._exits.close()

    @property
    def studies(self) -> str:
        return self._database.uri("optuna") if self._database else f"sqlite:///{self.store / 'optuna.db'}"

    @property
    def tracking_uri(self) -> str:
        return self._mlflow.uri

    # ---- cluster and driver

    def _start_cluster(self) -> None:
        self._cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 1, "include_dashboard": False, **_SMALL_NODE},
        )
        self._nodes = []
        self._add_node()

    def _add_node(self) -> None:
        self._nodes.append(self._cluster.add_node(num_cpus=1, **_SMALL_NODE))

    def _stop_cluster(self) -> None:
        if self._cluster is not None:
            self.look()
            with contextlib.suppress(Exception):  # some of it is dead already
                self._cluster.shutdown()
            for process in self.seen.values():  # what a dead raylet left to itself
                if "ray" in _title(process):
                    with contextlib.suppress(psutil.Error):
                        process.kill()
        self._cluster = None

    def environment(self) -> dict[str, str]:
        own = {
            "MLFLOW_TRACKING_URI": self._proxy.uri,
            "MLFLOW_HTTP_REQUEST_TIMEOUT": "5",
            "DMLTUNE_OPTUNA_STORAGE": self.studies if self._database else "",
            "DMLTUNE_HUNG_AFTER": "60",
            "DMLTUNE_TRACKING_WAIT": "60",
            "OMP_NUM_THREADS": "1",
        }
        return {key: value for key, value in {**os.environ, **own}.items() if value}

    def start_driver(self) -> None:
        command = [sys.executable, "-m", "dmltune", "search", "glyphs-ccp", *SMALL, "scheduler=none"]
        command += ["--trials", str(self.trials), "--name", NAME, "--store", str(self.store)]
        command += ["--address", str(self._cluster.address)]
        with open(self.folder / "driver.txt", "ab") as log:
            self._driver = subprocess.Popen(command, stdout=log, stderr=log, env=self.environment())
        self.starts += 1

    def keep_going(self) -> None:
        """Start the driver again when it has ended; a search that is finished gets more trials."""
        if self._driver is None or self._driver.poll() is None:
            return
        if self._driver.returncode == 0:
            self.trials += 2
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
            assert self._driver is not None
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._driver.wait(PATIENCE_S)
            if self._driver.returncode == 0:
                return
            if self._driver.poll() is None:
                self._driver.kill()
                self._driver.wait(10)
            self.start_driver()
        raise SystemExit(f"the search does not end:\n{(self.folder / 'driver.txt').read_text()[-3000:]}")

    # ---- what happens

    def cause(self, kind: str) -> None:
        getattr(self, f"_break_{kind}")()

    def _break_worker(self) -> None:
        self._kill("RayTrainWorker")

    def _break_conductor(self) -> None:
        self._kill("TrainController")

    def _break_driver(self) -> None:
        assert self._driver is not None
        self.look()
        self._driver.kill()
        self._driver.wait(10)
        self.start_driver()

    def _break_node(self) -> None:
        self._cluster.remove_node(self._nodes.pop(), allow_graceful=False)
        self._add_node()

    def _break_partition(self) -> None:
        """A node that neither answers nor dies, until the cluster has given it up."""
        raylet = psutil.Process(self._nodes[-1].all_processes["raylet"][0].process.pid)
        stopped = [raylet, *raylet.children(recursive=True)]
        for process in stopped:
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGSTOP)
        time.sleep(30)
        for process in stopped:
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGCONT)
        with contextlib.suppress(Exception):
            self._cluster.remove_node(self._nodes.pop(), allow_graceful=False)
        self._add_node()

    def _break_gcs(self) -> None:
        """Without its GCS a cluster without Redis is lost: it is started again."""
        self.look()
        self._cluster.head_node.kill_gcs_server()
        time.sleep(2)
        assert self._driver is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._driver.wait(90)
        if self._driver.poll() is None:
            print("        the driver still waits for a cluster without a GCS; killed")
            self._driver.kill()
            self._driver.wait(10)
        self._stop_cluster()
        self._start_cluster()
        self.start_driver()

    def _break_mlflow(self) -> None:
        self._mlflow.kill()
        self.watch(10)
        self._mlflow.start()

    def _break_postgres(self) -> None:
        if self._database is not None:
            self._database.restart()

    def _break_storage(self) -> None:
        """The artifact store fails for some seconds; runs and metrics work."""
        self._proxy.only, self._proxy.mode = "mlflow-artifacts", "error"
        self.watch(10)
        self._proxy.only, self._proxy.mode = "", "pass"

    def _break_disk(self) -> None:
        if not self.small_disk:
            return
        filler = self.store / "filler"
        with contextlib.suppress(OSError), open(filler, "wb") as file:
            while True:
                file.write(bytes(2**20))
        time.sleep(15)
        filler.unlink()
        self.keep_going()

    def _kill(self, title: str) -> None:
        self.look()
        alive = [each for each in self.seen.values() if each.is_running() and title in _title(each)]
        if alive:
            with contextlib.suppress(psutil.Error):
                alive[-1].kill()

    # ---- what is seen

    def look(self) -> None:
        """Remember the processes: children of a dead parent are not found later."""
        with contextlib.suppress(psutil.Error):
            self.seen.update({each.pid: each for each in psutil.Process().children(recursive=True)})

    def scores(self) -> int:
        """Return how many validations the study has."""
        with contextlib.suppress(Exception):
            study = optuna.load_study(study_name=NAME, storage=self.studies)
            return sum(len(trial.intermediate_values) for trial in study.trials)
        return 0

    def wait_for_progress(self, before: int, seconds: float) -> None:
        until = time.monotonic() + seconds
        while self.scores() <= before:
            self.look()
            self.keep_going()
            if time.monotonic() > until:
                text = (self.folder / "driver.txt").read_text()[-3000:]
                raise SystemExit(f"nothing happens for {seconds:.0f} s:\n{text}")
            time.sleep(0.5)

    def notes(self) -> list[str]:
        """Return what the driver said about faults, each once."""
        lines = (self.folder / "driver.txt").read_text(errors="replace").splitlines()
        signs = (
            "tracking server",
            "disk",
            "Ray ",
            "workers died",
            "room for",
            "database",
            "lost",
            "Traceback",
        )
        return list(dict.fromkeys(line[:160] for line in lines if any(sign in line for sign in signs)))[:20]

    def processes(self, *titles: str) -> list[str]:
        """Return the living processes with one of these words in their title."""
        self.look()
        found = [_title(process) for process in self.seen.values() if process.is_running()]
        return [title for title in found if any(word in title for word in titles)]

    def left_over(self) -> list[str]:
        """Return processes of this program's that outlive it, and temporary folders of its drivers."""
        time.sleep(3)
        found = []
        for process in self.seen.values():
            with contextlib.suppress(psutil.Error):
                if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(f"process {process.pid} {_title(process)[:100]}")
        return found


def _title(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""
