"""A folder to make something in: for one process at a time, and gone afterwards, sooner or later."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from dmltune.errors import UserError


@contextlib.contextmanager
def workspace(folder: Path) -> Iterator[Path]:
    """An empty sibling of `folder` to make it in: `.NAME.partial`.

    What is wanted of it is renamed while the block lasts, itself or something in it; the rest is removed.
    What a killed process left there is removed by the next one. Two processes at once: the second is refused.
    """
    place = folder.with_name(f".{folder.name}.partial")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        held = _hold(place)
    except OSError as error:
        raise UserError(
            f"{place} must be a folder that can be made and written ({error.strerror}); choose another place"
            " or remove what is there."
        ) from error
    try:
        yield place
    finally:
        if _is(held, place):  # else it has been renamed, and this name may be another process's by now
            shutil.rmtree(place, ignore_errors=True)
        os.close(held)


def _hold(place: Path) -> int:
    """Make, lock and empty the folder. The lock is on the folder itself: a killed process leaves none."""
    while True:
        place.mkdir(exist_ok=True)
        try:
            held = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            continue  # its owner has just finished
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(held)
            raise UserError(f"another process is at work in {place}; wait until it is done.") from error
        except OSError:
            pass  # a network file system without locks
        if _is(held, place):
            _clear(place)
            return held
        os.close(held)


def _clear(place: Path) -> None:
    for left in place.iterdir():
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)
        else:
            left.unlink()


def _is(held: int, place: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(held), os.lstat(place))
    except FileNotFoundError:
        return False
