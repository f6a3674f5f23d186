"""Temporary folders: gone with their block, and after a kill with the next start."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from dmltune.scratch import remove_stale_folders, scratch_folder

KILLED = """
import os, signal
from dmltune.scratch import scratch_folder
with scratch_folder() as folder:
    (folder / "half.png").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_goes_with_the_next_start_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with scratch_folder() as own:
        subprocess.run([sys.executable, "-c", KILLED], env={"TMPDIR": str(tmp_path)}, check=False)
        (tmp_path / "dmltune-of-a-user-1").mkdir()
        assert len(list(tmp_path.iterdir())) == 3
        remove_stale_folders()
        assert {path.name for path in tmp_path.iterdir()} == {own.name, "dmltune-of-a-user-1"}
    assert not own.exists()
