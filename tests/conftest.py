"""One thread a process (the tests share few cores), and nothing that talks to the outside."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

for variable, value in {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # Ray's 15 would let the other lane of tests take all the time
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "NO_COLOR": "1",
    "MPLBACKEND": "agg",
}.items():
    os.environ.setdefault(variable, value)

# A shell that starts the tests in the background lets them, and all they start, ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Told to end, the tests take down what they started.
signal.signal(signal.SIGTERM, lambda *_: pytest.exit("terminated", returncode=143))


TESTS = Path(__file__).parent
WITH_RAY = (  # two of these at a time would starve each other
    *("search/test_kills.py", "cli/test_submit.py", "train/test_many.py", "reproduce/test_collage.py"),
    *("search/test_whole_search.py", "train/test_local.py", "cli/test_search_own_data.py"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with Ray come first and are one lane of `make test`; every other file is a unit of its own."""
    place = {str(TESTS / file): number for number, file in enumerate(WITH_RAY)}
    items.sort(key=lambda item: place.get(str(item.path), len(place)))
    for item in items:
        lane = "ray" if str(item.path) in place else str(item.path.relative_to(TESTS))
        item.add_marker(pytest.mark.xdist_group(lane))
