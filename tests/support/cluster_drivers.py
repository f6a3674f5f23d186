"""Commands whose driver runs beside a cluster, and what they leave in a store."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from dmltune import tags
from dmltune.core import checkpoint
from dmltune.errors import UserError
from dmltune.store import Store
from dmltune.tracking import Tracker
from dmltune.tracking.health import examine
from support.clusters import ENVIRONMENT, Cluster

STEPS, EVERY = 400, 40
SMALL = ["data.classes=40", "data.size=16", "batch.size=16"]
LONG = [*SMALL, f"max_steps={STEPS}", f"validate_every={EVERY}"]
Start = Callable[..., subprocess.Popen[str]]


@contextlib.contextmanager
def drivers(cluster: Cluster, environment: Mapping[str, str]) -> Iterator[Start]:
    """Yield a function that starts `dmltune` on the cluster; the processes end with the block."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: str | Path, on_cluster: bool = True) -> subprocess.Popen[str]:
        address = ["--address", cluster.address] if on_cluster else []
        process = subprocess.Popen(
            [sys.executable, "-m", "dmltune", *map(str, words), *address],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | ENVIRONMENT | environment,
        )
        started.append(process)
        return process

    try:
        yield start
    finally:
        for process in started:
            process.kill()
            process.communicate()


def finished(process: subprocess.Popen[str], code: int = 0) -> tuple[str, str]:
    out, err = process.communicate(timeout=500)
    assert process.returncode == code, err + out
    return out, err


def require_models(store: Store, trials: int) -> None:
    """The store has so many models, and each is in its place."""
    health = examine(store)
    assert health.models >= trials
    assert health.problems == ()


def mirrored_step(store: Path, trial: str) -> int:
    """Return the step of the checkpoint of a trial; −1 while there is none, or it has ended."""
    with contextlib.suppress(UserError):
        meta = checkpoint.load(store / "searches" / "k" / "trials" / trial / "last")[1]
        return int(meta["report"]["step"])
    return -1


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 400
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def logged_steps(store: Store, number: str) -> list[int]:
    """Return the steps of every point of a trial's curve, as MLflow has them."""
    tracker = Tracker(store)
    run = next(each for each in tracker.runs("") if each.data.tags.get(tags.NUMBER) == number)
    history = tracker.client.get_metric_history(run.info.run_id, "map_at_r")
    return sorted(point.step for point in history)


def trial_folders() -> list[Path]:
    """Return the private folders of workers on this machine's disk."""
    return list(Path("/tmp").glob("dmltune-trial-*"))
