"""A temporary folder beside the one to be made, for one process at a time."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from dmltune.data.files import locked
from dmltune.errors import UserError

LOCK = "lock"


@contextlib.contextmanager
def workspace(folder: Path) -> Iterator[Path]:
    """Yield an empty folder in `.NAME.partial` beside `folder`, removed after the block.

    The caller renames it, or parts of it, to keep them. What a killed process left is removed. While another
    process is in its block, this one is refused.
    """
    place = folder.with_name(f".{folder.name}.partial")
    with contextlib.ExitStack() as stack:
        try:
            place.mkdir(parents=True, exist_ok=True)
            if place.is_symlink():
                raise OSError(None, "it is a link")
            stack.enter_context(locked(place / LOCK, f"at work in {place}", patience=0))
            _clear(place)
            (place / "new").mkdir()
        except OSError as error:
            raise UserError(
                f"{place} must be a folder that can be made and written ({error.strerror}); choose another"
                " place or remove what is there."
            ) from error
        try:
            yield place / "new"
        finally:
            _clear(place)
            with contextlib.suppress(OSError):  # another process has entered it
                (place / LOCK).unlink()
                place.rmdir()


def _clear(place: Path) -> None:
    """Remove all entries but the lock."""
    for entry in place.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.name != LOCK:
            entry.unlink()
