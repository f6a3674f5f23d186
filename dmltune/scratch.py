"""Temporary folders with the number of their process: a later start removes those of killed processes."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_OF_A_PROCESS = re.compile(r"dmltune-(?:ray|tmp)-(\d+)-.+")


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield a private temporary folder, which is removed at the end of the block."""
    with tempfile.TemporaryDirectory(prefix=f"dmltune-tmp-{os.getpid()}-") as folder:
        yield Path(folder)


def remove_stale_folders(*places: str) -> None:
    """Delete the temporary folders of processes that were killed, in the usual place and in these."""
    import psutil

    for place in {tempfile.gettempdir(), *places}:
        for folder in Path(place).glob("dmltune-*"):
            found = _OF_A_PROCESS.fullmatch(folder.name)
            if found and not psutil.pid_exists(int(found[1])):
                shutil.rmtree(folder, ignore_errors=True)
