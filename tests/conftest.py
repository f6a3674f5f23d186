"""One thread a process (the tests share few cores), and nothing that talks to the outside."""

from __future__ import annotations

import os

for variable, value in {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "NO_COLOR": "1",
    "MPLBACKEND": "agg",
}.items():
    os.environ.setdefault(variable, value)
