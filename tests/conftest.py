"""One thread a process (the tests share few cores), and nothing that talks to the outside."""

from __future__ import annotations

import os
import signal

import pytest

for variable, value in {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "NO_COLOR": "1",
    "MPLBACKEND": "agg",
}.items():
    os.environ.setdefault(variable, value)

# A shell that starts the tests in the background lets them, and all they start, ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Told to end, the tests take down what they started.
signal.signal(signal.SIGTERM, lambda *_: pytest.exit("terminated", returncode=143))
