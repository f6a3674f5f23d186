"""Open and lock files and temporary folders, and turn errors of the system into user errors."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from filelock import FileLock, Timeout

from dmltune.errors import UserError

logger = logging.getLogger(__name__)

PATIENCE_SECONDS = 2.0  # a longer wait for another process is logged
POLL_SECONDS = 0.02
NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP)  # of some network file systems


def regular_stat(file: Path) -> os.stat_result:
    """Return the status of a regular file that may be read; raise OSError for anything else."""
    status = file.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(file))
    if not os.access(file, os.R_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(file))
    return status


def open_regular(file: Path, mode: str = "r", **options: Any) -> IO[Any]:
    """Open a regular file; raise OSError for anything else. A FIFO does not block."""
    return open(file, mode, opener=_open_regular, **options)


def _open_regular(file: str, flags: int) -> int:
    descriptor = os.open(file, flags | os.O_NONBLOCK, 0o666)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", file)
    return descriptor


@contextlib.contextmanager
def user_errors(failure: str) -> Iterator[None]:
    """Turn an OSError of the system in the block into the UserError `failure` with the reason."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # gzip, bz2 and Pillow raise it for damaged files
            raise
        why = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
        raise UserError(f"{failure} ({why}); correct that first.") from error


def amount(size: float) -> str:
    """Return a size in words: 1150585339 → 1.2 GB."""
    for unit, step in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= step:
            return f"{size / step:.1f} {unit}"
    return f"{size:.0f} bytes"


@contextlib.contextmanager
def locked(file: Path, task: str, patience: float | None = None) -> Iterator[bool]:
    """Hold the lock `file` during the block, for one process at a time.

    The kernel releases it when the process ends. A wait of more than PATIENCE_SECONDS is logged with `task`.
    With `patience` a longer wait is a UserError. Yields False on a file system without locks.
    """
    if os.path.lexists(file) and not os.path.isfile(file):
        raise UserError(f"the lock {file} must be a regular file; remove it.")
    lock = FileLock(file, poll_interval=POLL_SECONDS)
    exclusive = True
    try:
        lock.acquire(timeout=PATIENCE_SECONDS if patience is None else patience)
    except Timeout as timeout:
        if patience is not None:
            raise UserError(f"another process is {task}; wait until it is done.") from timeout
        logger.warning("another process is %s; waiting for it", task)
        lock.acquire()
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        exclusive = False
    try:
        yield exclusive
    finally:
        lock.release()


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
            stack.enter_context(locked(place / "lock", f"at work in {place}", patience=0))
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
                (place / "lock").unlink()
                place.rmdir()


def _clear(place: Path) -> None:
    """Remove all entries but the lock."""
    for entry in place.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.name != "lock":
            entry.unlink()
