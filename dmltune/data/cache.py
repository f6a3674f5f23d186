"""Folders of things that are costly to make and can be made again: built once a machine, whole or not at all,
and removed when the cache grows too large, those unused for longest first.

A process that reads an entry holds a shared lock on its folder until it ends, however it ends: who removes an
entry needs that lock alone.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import math
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from dmltune.errors import UserError

T = TypeVar("T")

LIMIT_GB = 50.0
MEMORY = Path("/dev/shm")
PATIENCE_SECONDS = 2.0  # who waits longer for another builder is told

_held: dict[Path, int] = {}  # folder → descriptor with the shared lock
_holding = threading.Lock()


def cache_folder() -> Path:
    """$DMLTUNE_CACHE, else $XDG_CACHE_HOME/dmltune, else ~/.cache/dmltune."""
    if own := os.environ.get("DMLTUNE_CACHE"):
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "dmltune"


def memory_folder() -> Path:
    """A folder of this user's in the machine's memory, shared by processes like any other folder."""
    folder = MEMORY / f"dmltune-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            raise PermissionError(f"{folder} belongs to somebody else")
    except OSError as error:
        raise UserError(
            f"images cannot be kept in memory, {MEMORY} cannot be used ({error}); keep them on disk or none."
        ) from error
    return folder


def limit_bytes() -> float:
    """$DMLTUNE_CACHE_GB, 50 when it is not set."""
    text = os.environ.get("DMLTUNE_CACHE_GB") or str(LIMIT_GB)
    try:
        limit = float(text)
    except ValueError:
        limit = math.nan
    if not limit >= 0:
        raise UserError(f"DMLTUNE_CACHE_GB must be a number of gigabytes, 0 or more; got '{text}'.")
    return limit * 1e9


def cached(
    entry: str, build: Callable[[Path], None], read: Callable[[Path], T], in_memory: bool = False
) -> T:
    """What `read` makes of the folder `entry` of the cache; `build` fills that folder when it is not there.

    `entry` must name the content (a hash of everything it depends on): an entry is never updated. Two
    processes may ask at once: one builds in a temporary sibling that is renamed when complete, the other
    waits for it. An entry that `read` finds damaged (OSError, ValueError, KeyError) is built again.
    What is `in_memory` goes with the last process that uses it.
    """
    root = memory_folder() if in_memory else cache_folder()
    folder = root / entry
    try:
        if (found := _read(folder, read)) is None:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with _lock(folder) as alone:
                # unless another process was faster
                if (found := _read(folder, read)) is None:
                    limit = 0.0 if in_memory else limit_bytes()
                    if alone:
                        _sweep(folder)
                    _build(folder, build)
                    _hold(folder)
                    found = read(folder)
                    trim(root, limit)
    except (PermissionError, FileExistsError, NotADirectoryError) as error:
        raise _unwritable(error, root) from error
    return found


def trim(root: Path, limit: float, room: float = 0) -> None:
    """Removes entries, least recently used first and never one in use, until all of them with `room` bytes
    more are within the limit."""
    found = []
    for folder in _entries(root):
        with contextlib.suppress(OSError):  # removed meanwhile
            size = sum(file.stat().st_size for file in folder.iterdir())
            found.append((folder.stat().st_mtime_ns, size, folder))
    excess = room + sum(size for _, size, _ in found) - limit
    for _, size, folder in sorted(found):
        if excess > 0 and _remove(folder):
            excess -= size


def _entries(root: Path) -> Iterator[Path]:
    """Every folder that has a lock beside it: what else lies in the cache is not ours to remove."""
    for place, _, files in os.walk(root):
        for file in files:
            if file.startswith(".") and file.endswith(".lock"):
                folder = Path(place, file[1 : -len(".lock")])
                if folder.is_dir():
                    yield folder


def _read(folder: Path, read: Callable[[Path], T]) -> T | None:
    if not folder.is_dir():
        return None
    try:
        _hold(folder)
        return read(folder)
    except PermissionError:
        raise
    except (OSError, ValueError, KeyError):
        return None


def _hold(folder: Path) -> None:
    """The entry is used now, and in use as long as this process lives."""
    with contextlib.suppress(OSError):  # somebody else's, and shared
        os.utime(folder)
    with _holding:
        while True:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            held = _held.get(folder)
            if held is not None and os.path.sameopenfile(held, descriptor):
                os.close(descriptor)
                return
            with contextlib.suppress(OSError):  # some network file systems have no locks
                fcntl.flock(descriptor, fcntl.LOCK_SH)
            if os.path.samestat(os.fstat(descriptor), os.stat(folder)):
                break
            os.close(descriptor)  # replaced while we waited
        if held is not None:
            os.close(held)
        _held[folder] = descriptor


def _remove(folder: Path) -> bool:
    """Whether the entry could be removed: not while it is in use, nor where there are no locks to tell."""
    removed = folder.with_name(f".{folder.name}~removed-{os.getpid()}")
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        folder.rename(removed)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    shutil.rmtree(removed, ignore_errors=True)
    return True


def _let_go() -> None:
    """At the end of a process: what it alone still kept in memory is removed."""
    for folder in [folder for folder in _held if folder.is_relative_to(MEMORY)]:
        os.close(_held.pop(folder))
        _remove(folder)


atexit.register(_let_go)


def _build(folder: Path, build: Callable[[Path], None]) -> None:
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}~", dir=folder.parent))
    try:
        build(temporary)
        for file in temporary.iterdir():
            with file.open("rb") as stream:
                os.fsync(stream.fileno())
        shutil.rmtree(folder, ignore_errors=True)  # a damaged one
        temporary.chmod(0o755)  # mkdtemp's 0700 would keep the entry from other users of a shared cache
        temporary.rename(folder)
    except OSError as error:
        if error.filename is None:  # a full disk has no file name
            raise _unwritable(error, folder.parent) from error
        raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _sweep(folder: Path) -> None:
    """What killed builders and removers of this entry left behind."""
    for path in folder.parent.iterdir():
        if path.name.startswith(f".{folder.name}~"):
            shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[bool]:
    """Whether nobody else builds this entry for sure. It spares double work: without locks (some network
    file systems) the rename still keeps an entry whole."""
    with (folder.parent / f".{folder.name}.lock").open("w") as stream:
        alone = True
        patient_until = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)  # released with the file, also by kill -9
            except BlockingIOError:
                if patient_until and time.monotonic() > patient_until:
                    print(f"another process makes {folder.name}; waiting for it …", file=sys.stderr)
                    patient_until = 0.0
                time.sleep(0.02)
                continue
            except OSError:
                alone = False
            break
        yield alone


def _unwritable(error: OSError, root: Path) -> UserError:
    remedy = "set DMLTUNE_CACHE to a folder that can be written and has room."
    if root.is_relative_to(MEMORY):
        remedy = "keep the images on disk, or none."
    return UserError(f"the cache {root} cannot be used ({error.strerror or error}); {remedy}")
