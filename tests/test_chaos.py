"""A short round of benchmarks/chaos.py: faults at random, and at the end everything is there once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.postgres import is_installed

PROGRAM = Path(__file__).parents[1] / "benchmarks" / "chaos.py"
FAULTS = ("worker", "mlflow", "driver", "conductor", "postgres")


@pytest.mark.skipif(not is_installed(), reason="PostgreSQL is not installed")
def test_a_search_survives_the_loss_of_its_processes_and_servers_and_is_whole() -> None:
    command = [sys.executable, str(PROGRAM), "--seconds", "200", "--seed", "1", "--faults", *FAULTS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "every point once; study and MLflow agree" in done.stdout
    assert "Traceback" not in done.stdout
