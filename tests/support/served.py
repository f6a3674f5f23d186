"""Servers of MLflow's that `dmltune ui` and `mlflow models serve` start, for a `with` block."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from support.servers import closed_port

PATIENCE_S = 120.0


@contextlib.contextmanager
def running(words: list[str], folder: Path, environment: Mapping[str, str]) -> Iterator[tuple[Path, Path]]:
    """Run a command of Python's in a process group of its own; yield the files of its output and errors."""
    out, err = folder / f"{words[0]}.out", folder / f"{words[0]}.err"
    with out.open("w") as stdout, err.open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", *words],
            cwd=folder,
            env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **environment},
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    try:
        yield out, err
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(20)


@contextlib.contextmanager
def ui(store: Path, name: str, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the document that `dmltune ui NAME -f json` prints; its server runs for the block."""
    words = ["dmltune", "ui", name, "--no-open", "-f", "json", "--store", str(store)]
    with running(words, folder, {}) as (out, err):
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            with contextlib.suppress(ValueError):
                links: dict[str, Any] = json.loads(out.read_text())
                yield links
                return
            time.sleep(0.2)
        raise AssertionError(f"dmltune ui printed no links: {err.read_text()}")


@contextlib.contextmanager
def served_model(store: Path, model: str, folder: Path) -> Iterator[str]:
    """Yield the address of `mlflow models serve`."""
    port = closed_port()
    options = ["--env-manager", "local", "--host", "127.0.0.1", "--port", str(port)]
    words = ["mlflow", "models", "serve", "-m", model, *options]
    environment = {"MLFLOW_TRACKING_URI": f"sqlite:///{store / 'mlflow.db'}", "PYTHONWARNINGS": "ignore"}
    with running(words, folder, environment) as (_, err):
        deadline = time.monotonic() + PATIENCE_S
        address = f"http://127.0.0.1:{port}"
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{address}/ping", timeout=2)
                yield address
                return
            time.sleep(0.2)
        raise AssertionError(f"mlflow models serve does not answer: {err.read_text()}")
