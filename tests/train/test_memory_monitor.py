"""Ray's own memory monitor ends a worker: its error is recognised as a lack of memory, not as a crash."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from dmltune.train.deaths import OUT_OF_MEMORY

PROGRAM = """
import json, sys, time
import ray
from ray.train.v2._internal.exceptions import WorkerHealthCheckFailedError
from dmltune.train.deaths import judge
from dmltune.train.ray_session import ray_session

@ray.remote(num_cpus=0)
class Worker:
    def train(self):
        time.sleep(600)

with ray_session(None):
    worker = Worker.remote()
    try:
        ray.get(worker.train.remote(), timeout=120)
    except ray.exceptions.RayError as error:
        wrapped = WorkerHealthCheckFailedError("a worker does not answer", error)
        print(json.dumps([type(error).__name__, judge([error]), judge([wrapped]), str(error)]))
"""


def test_a_worker_that_ray_ends_for_its_memory_is_told_so(tmp_path: Path) -> None:
    """Every node uses more than a thousandth of its memory, so the monitor ends the worker at once."""
    limits = {"RAY_memory_usage_threshold": "0.001", "RAY_memory_monitor_refresh_ms": "100"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True, text=True, cwd=tmp_path, timeout=280, check=False, env=os.environ | limits,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    kind, plain, wrapped, text = json.loads(done.stdout.splitlines()[-1])
    assert plain == wrapped == [OUT_OF_MEMORY, "worker"], f"{kind}: {text}"
