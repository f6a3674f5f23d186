"""A lock between processes of one machine, which the kernel frees when its process ends."""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def locked(path: Path, seconds: float, shared: bool = False) -> Iterator[None]:
    """Hold the lock of this file; a BlockingIOError when it is not free for `seconds`."""
    kind, deadline = fcntl.LOCK_SH if shared else fcntl.LOCK_EX, time.monotonic() + seconds
    with path.open("a") as file:
        while True:
            try:
                fcntl.flock(file, kind | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(0.1)
        yield
