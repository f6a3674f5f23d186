"""optuna-dashboard on the study of a search: what its server answers."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from support.finished_search import NAME, TRIALS, finished_search
from support.servers import closed_port

pytest.importorskip("optuna_dashboard")
PATIENCE_S = 90.0


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The command of README.md, on a free port of 127.0.0.1."""
    folder = tmp_path_factory.mktemp("dashboard")
    finished_search(tmp_path_factory).copy(folder)
    port = closed_port()
    words = [f"sqlite:///{folder / 'optuna.db'}", "--port", str(port), "--host", "127.0.0.1"]
    with (folder / "log.txt").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", "from optuna_dashboard._cli import main; main()", *words],
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    place = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + PATIENCE_S
    try:
        while process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{place}/api/studies", timeout=5).read()
                break
            time.sleep(0.2)
        assert process.poll() is None, (folder / "log.txt").read_text()
        yield place
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(20)


def asked(address: str) -> Any:
    with urllib.request.urlopen(address, timeout=30) as answer:
        return json.loads(answer.read())


def test_it_lists_the_search_with_its_trials_and_the_name_of_the_metric(address: str) -> None:
    studies = asked(f"{address}/api/studies")["study_summaries"]
    study = next(each for each in studies if each["study_name"] == NAME)
    assert study["directions"] == ["maximize"]
    found = asked(f"{address}/api/studies/{study['study_id']}")
    assert found["objective_names"] == ["map_at_r"]
    assert [trial["state"] for trial in found["trials"]] == ["Complete"] * TRIALS
    searched = [trial for trial in found["trials"] if trial["params"]]
    assert {"references.lambda", "references.proxies"} <= {each["name"] for each in searched[0]["params"]}
    assert all(len(trial["intermediate_values"]) == 3 for trial in found["trials"])


def test_its_page_opens(address: str) -> None:
    with urllib.request.urlopen(f"{address}/dashboard", timeout=30) as answer:
        assert b"Optuna Dashboard" in answer.read()
