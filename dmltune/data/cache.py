"""A folder of things that are costly to make and can be made again: built once a machine, whole or not at
all."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from dmltune.errors import UserError

T = TypeVar("T")


def cache_folder() -> Path:
    """$DMLTUNE_CACHE, else $XDG_CACHE_HOME/dmltune, else ~/.cache/dmltune."""
    if own := os.environ.get("DMLTUNE_CACHE"):
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "dmltune"


def cached(entry: str, build: Callable[[Path], None], read: Callable[[Path], T]) -> T:
    """What `read` makes of the folder `entry` of the cache; `build` fills that folder when it is not there.

    `entry` must name the content (a hash of everything it depends on): an entry is never updated. Two
    processes may ask at once: one builds in a temporary sibling that is renamed when complete, the other
    waits for it. An entry that `read` finds damaged (OSError, ValueError, KeyError) is built again.
    """
    folder = cache_folder() / entry
    try:
        if (found := _read(folder, read)) is not None:
            return found
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _lock(folder):
            if (found := _read(folder, read)) is not None:
                return found  # another process was faster
            _build(folder, build)
    except (PermissionError, FileExistsError, NotADirectoryError) as error:
        raise _unwritable(error) from error
    return read(folder)


def _read(folder: Path, read: Callable[[Path], T]) -> T | None:
    if not folder.is_dir():
        return None
    try:
        return read(folder)
    except PermissionError:
        raise
    except (OSError, ValueError, KeyError):
        return None


def _build(folder: Path, build: Callable[[Path], None]) -> None:
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
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
            raise _unwritable(error) from error
        raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Only spares double work: without locks (some network file systems) the rename still keeps an entry
    whole."""
    with (folder.parent / f".{folder.name}.lock").open("w") as stream:
        with contextlib.suppress(OSError):
            fcntl.flock(stream, fcntl.LOCK_EX)  # released when the file is closed, also by kill -9
        yield


def _unwritable(error: OSError) -> UserError:
    return UserError(
        f"the cache {cache_folder()} cannot be used ({error.strerror or error}); set DMLTUNE_CACHE to a"
        " folder that can be written and has room."
    )
