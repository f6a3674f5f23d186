"""Temporary folders that name their process in a file: a later start removes those of killed processes."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from dmltune.provenance import has_ended, this_process

OWNER = "process"


@contextlib.contextmanager
def process_folder(kind: str, place: str | None = None) -> Iterator[Path]:
    """Yield a private folder in `place` (the usual temporary one) that holds the file `process` only.

    It is named dmltune-KIND-PID-xxxxxxxx, and removed at the end of the block.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"dmltune-{kind}-{os.getpid()}-", dir=place))
    try:
        (folder / OWNER).write_text(this_process())
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield a private, empty temporary folder, which is removed at the end of the block."""
    with process_folder("tmp") as folder:
        empty = folder / "files"
        empty.mkdir()
        yield empty


def remove_stale_folders(*places: str) -> None:
    """Delete this user's folders whose process was killed on this host, in the usual place and in these."""
    for place in {tempfile.gettempdir(), *places}:
        for owner in Path(place).glob(f"dmltune-*-*/{OWNER}"):
            with contextlib.suppress(OSError, UnicodeDecodeError):
                if owner.lstat().st_uid == os.getuid() and has_ended(owner.read_text()):
                    shutil.rmtree(owner.parent, ignore_errors=True)
