"""A short run of benchmarks/chaos.py: a search loses a worker, its driver, MLflow's server and its files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "chaos.py"
FAULTS = ("worker", "driver", "storage", "mlflow")


@pytest.mark.timeout(600)
def test_a_search_under_faults_is_complete_and_every_point_is_there_once() -> None:
    command = [sys.executable, str(PROGRAM), "--local", "--trials", "10", "--more", "4", "--faults", *FAULTS]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        text, _ = process.communicate(timeout=540)
    finally:
        process.terminate()  # it ends what it has started
        process.wait(60)
    assert process.returncode == 0, text
    assert f" {len(FAULTS)} faults" in text, text
