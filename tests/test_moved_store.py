"""A store that was moved or copied has its own artifacts, and never writes those of the original."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from dmltune.store import Store
from dmltune.tracking import Tracker


def a_run(folder: Path) -> str:
    """A store with one run that has a text."""
    tracker = Tracker(Store.at(folder))
    key = {"dmltune.search": "s", "dmltune.number": "parent"}
    run_id = tracker.begin_run(tracker.experiment("some space"), "s", key, {}, {})[0]
    tracker.log_json(run_id, "result.json", {"place": "original"})
    return run_id


WRITE_AND_READ = """
import sys
from dmltune.store import Store
from dmltune.tracking import Tracker
tracker = Tracker(Store.at(sys.argv[1]))
tracker.log_json(sys.argv[2], "result.json", {"place": "copy"})
print(tracker.read_json(sys.argv[2], "result.json")["place"])
"""


def test_a_copied_store_reads_and_writes_its_own_artifacts(tmp_path: Path) -> None:
    """In another process, as users do: MLflow remembers the addresses of runs for the life of a process."""
    run_id = a_run(tmp_path / "original")
    shutil.copytree(tmp_path / "original", tmp_path / "copy")
    command = [sys.executable, "-c", WRITE_AND_READ, str(tmp_path / "copy"), run_id]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert answer.stdout.split() == ["copy"]
    original = Tracker(Store.at(tmp_path / "original"))
    assert original.read_json(run_id, "result.json") == {"place": "original"}


def test_a_moved_store_still_has_its_artifacts(tmp_path: Path) -> None:
    run_id = a_run(tmp_path / "old place")
    shutil.move(tmp_path / "old place", tmp_path / "new")
    moved = Tracker(Store.at(tmp_path / "new"))
    assert moved.read_json(run_id, "result.json") == {"place": "original"}
    assert not (tmp_path / "old place").exists()
    key = {"dmltune.search": "t", "dmltune.number": "parent"}
    later = moved.begin_run(moved.experiment("some space"), "t", key, {}, {})[0]
    moved.log_json(later, "result.json", {"place": "new"})
    assert moved.read_json(later, "result.json") == {"place": "new"}
