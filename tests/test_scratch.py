"""Temporary folders: gone with their block, and after a kill with the next start."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from dmltune.provenance import this_process
from dmltune.scratch import OWNER, remove_stale_folders, scratch_folder

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
        (tmp_path / "dmltune-of-a-user").mkdir()
        assert len(list(tmp_path.iterdir())) == 3
        remove_stale_folders()
        assert {path.name for path in tmp_path.iterdir()} == {own.parent.name, "dmltune-of-a-user"}
        assert own.parent.stat().st_mode & 0o077 == 0
    assert not own.parent.exists()


def test_a_process_on_another_host_keeps_its_folder_and_a_reused_number_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name, process in (
        ("elsewhere", f"not-{this_process()}"),
        ("reused", f"{this_process()}0"),
        ("unreadable", "\xff"),
    ):
        folder = tmp_path / f"dmltune-tmp-{name}"
        folder.mkdir()
        (folder / OWNER).write_text(process, encoding="latin-1")
    remove_stale_folders()
    assert {path.name for path in tmp_path.iterdir()} == {"dmltune-tmp-elsewhere", "dmltune-tmp-unreadable"}
