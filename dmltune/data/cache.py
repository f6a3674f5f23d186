"""A cache of folders that are costly to make.

An entry is built once a machine, completely or not at all. When the cache exceeds its limit the entries that
have not been used for longest are removed. A process that reads an entry holds a shared lock on its folder
until the process ends; to remove an entry takes the exclusive lock.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import math
import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from dmltune.data.files import locked
from dmltune.errors import UserError
from dmltune.private import shared_files, users_umask

T = TypeVar("T")

LIMIT_GB = 50.0
MEMORY = Path("/dev/shm")

_held: dict[Path, int] = {}  # folder → descriptor with the shared lock
_holding = threading.Lock()


def cache_folder() -> Path:
    """Return $DMLTUNE_CACHE, else $XDG_CACHE_HOME/dmltune, else ~/.cache/dmltune."""
    if own := os.environ.get("DMLTUNE_CACHE"):
        folder = os.path.expanduser(own)
        if folder.startswith("~"):
            raise UserError(f"DMLTUNE_CACHE must be a folder; got {own}, and there is no such user.")
        if "://" in folder:
            raise UserError(
                f"DMLTUNE_CACHE must be a folder of this machine; got {own}. Name one, or unset it."
            )
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "dmltune"


def memory_folder() -> Path:
    """Return this user's folder in shared memory; it is made when it does not exist."""
    folder = MEMORY / f"dmltune-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            raise PermissionError(f"{folder} belongs to another user")
    except OSError as error:
        raise UserError(
            f"images cannot be cached in memory, {MEMORY} cannot be used ({error}); use --cache disk or none."
        ) from error
    return folder


def limit_bytes() -> float:
    """Return $DMLTUNE_CACHE_GB in bytes; the default is 50 GB."""
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
    """Return `read` of the folder `entry` of the cache, after `build` if it does not exist.

    `entry` must name the content (a hash of everything it depends on): an entry is never updated. It is built
    in a temporary sibling that is renamed when complete; other processes wait meanwhile. An entry that `read`
    rejects (OSError, ValueError, KeyError) is built again. An entry `in_memory` is removed when the last
    process that uses it ends.
    """
    root = memory_folder() if in_memory else cache_folder()
    folder = root / entry
    try:
        if (content := _read(folder, read)) is None:
            with shared_files():
                folder.parent.mkdir(parents=True, exist_ok=True)
            # The lock only saves work: without locks the rename still keeps an entry complete.
            with locked(folder.parent / f".{folder.name}.lock", f"building {folder.name}") as exclusive:
                if (content := _read(folder, read)) is None:  # not built by another process meanwhile
                    limit = 0.0 if in_memory else limit_bytes()
                    leftovers = folder.parent.glob(f".{folder.name}~*") if exclusive else ()
                    for path in leftovers:  # of killed processes
                        shutil.rmtree(path, ignore_errors=True)
                    _build(folder, build)
                    _hold(folder)
                    content = read(folder)
                    trim(root, limit)
    except (PermissionError, FileExistsError, NotADirectoryError) as error:
        raise _unwritable(error, root) from error
    return content


def trim(root: Path, limit: float, room: float = 0) -> None:
    """Remove entries until they and `room` more bytes fit in the limit.

    The least recently used entry goes first. An entry in use is never removed. A folder without a lock beside
    it is not an entry.
    """
    entries = []
    for place, file in ((place, file) for place, _, files in os.walk(root) for file in files):
        if not (file.startswith(".") and file.endswith(".lock")):
            continue
        folder = Path(place, file[1 : -len(".lock")])
        with contextlib.suppress(OSError):  # removed meanwhile, or not a folder
            size = sum(file.stat().st_size for file in folder.iterdir())
            entries.append((folder.stat().st_mtime_ns, size, folder))
    excess = room + sum(size for _, size, _ in entries) - limit
    for _, size, folder in sorted(entries):
        if excess > 0 and _remove(folder):
            excess -= size


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
    """Mark the entry as used now, and as in use until this process ends."""
    with contextlib.suppress(OSError):  # another user's folder
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
            os.close(descriptor)  # the folder has been replaced meanwhile
        if held is not None:
            os.close(held)
        _held[folder] = descriptor


def _remove(folder: Path) -> bool:
    """Remove the entry unless it may be in use; return whether it was removed."""
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


def _release_memory() -> None:
    """Remove the entries in memory that only this process uses."""
    for folder in [folder for folder in _held if folder.is_relative_to(MEMORY)]:
        os.close(_held.pop(folder))
        _remove(folder)


atexit.register(_release_memory)


def _build(folder: Path, build: Callable[[Path], None]) -> None:
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}~", dir=folder.parent))
    try:
        with shared_files():
            build(temporary)
        for file in temporary.iterdir():
            with file.open("rb") as stream:
                os.fsync(stream.fileno())
        shutil.rmtree(folder, ignore_errors=True)  # a damaged one
        # mkdtemp's 0700 would keep the entry from other users of a shared cache
        temporary.chmod(0o777 & ~users_umask())
        temporary.rename(folder)
    except OSError as error:
        if error.filename is None:  # a full disk has no file name
            raise _unwritable(error, folder.parent) from error
        raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _unwritable(error: OSError, root: Path) -> UserError:
    remedy = "set DMLTUNE_CACHE to a folder that can be written and has room."
    if root.is_relative_to(MEMORY):
        remedy = "use --cache disk or none."
    return UserError(f"the cache {root} cannot be used ({error.strerror or error}); {remedy}")
