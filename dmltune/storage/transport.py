"""What every way to the store offers, and what the ways share.

Names are relative paths with `/`, as in the folder of the store. A file is seen whole or not at all: a put
replaces it in one step. The last put wins. Every call may be repeated.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Protocol, TypeVar

from dmltune.errors import UserError, readable

T = TypeVar("T")
CHUNK = 4 << 20  # bytes that travel at a time
WINDOW = 4  # chunks on their way at the same time
PATIENCE_S = 60.0  # how long a failing call is repeated
ADDRESS_PATIENCE_S = 600.0  # the same during a search: an outage of an object store is waited for
_NAME = re.compile(r"[^\x00-\x1f\x7f\\]{1,1000}")


class TransferError(UserError):
    """A file could not be brought to the store, or from it."""


class FileTransport(Protocol):
    """A way between this machine and the place where the files of a store are kept."""

    def put(self, local: Path, name: str) -> None:
        """Copy a file of this machine to `name`."""

    def fetch(self, name: str, local: Path) -> bool:
        """Copy `name` to a file of this machine; False when there is none."""

    def names(self, prefix: str) -> list[str]:
        """Return the names of all files below `prefix`."""


def require_name(name: str) -> str:
    """Return `name` when it is a relative path that stays inside its folder."""
    path = PurePosixPath(name)
    if not _NAME.fullmatch(name) or path.is_absolute() or ".." in path.parts or not path.parts:
        raise TransferError(f"a file of the store must have a relative path inside it; got {readable(name)}")
    return path.as_posix()


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def patiently(
    action: Callable[[], T],
    what: str,
    patience_s: float = PATIENCE_S,
    sleep: Callable[[float], object] = time.sleep,
) -> T:
    """Return what `action` returns; repeat it while it fails, for `patience_s` seconds."""
    deadline, pause = time.monotonic() + patience_s, 0.2
    while True:
        try:
            return action()
        except UserError:
            raise
        except Exception as error:
            if time.monotonic() + pause > deadline:
                raise TransferError(f"{what} failed for {patience_s:.0f} s: {reason_of(error)}") from error
        sleep(pause)
        pause = min(10.0, 2 * pause)


def reason_of(error: BaseException) -> str:
    """Return an error as one line; of an error of a remote call, the line of its cause."""
    cause = getattr(error, "cause", None)
    error = cause if isinstance(cause, BaseException) else error
    text = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {text}"[:300] if text else type(error).__name__
