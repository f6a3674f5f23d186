"""The real command line in a process of its own, in an empty folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.fork_server import run_command

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def dmltune(tmp_path: Path) -> Run:
    """`dmltune("spaces", "-f", "json")` in `tmp_path`, without the settings of whoever runs the tests."""
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("DMLTUNE_", "RAY_", "MLFLOW_"))
    }
    kept = ("DMLTUNE_CACHE", "RAY_AUTH_TOKEN_PATH", "RAY_USAGE_STATS_ENABLED", "MLFLOW_DISABLE_TELEMETRY")
    environment |= {"COLUMNS": "100"} | {key: os.environ[key] for key in kept if key in os.environ}

    def run(*words: str, seconds: float = 120) -> subprocess.CompletedProcess[str]:
        if words[:1] not in (("submit",), ("jobs",)):
            return run_command(words, tmp_path, environment, seconds)
        return subprocess.run(  # Ray reads whether to use tokens when it is imported
            [sys.executable, "-m", "dmltune", *words],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment,
            timeout=seconds,
            check=False,
        )

    return run
