"""Who is told what has arrived: set once around a command, and used wherever a file is fetched."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar

Progress = Callable[[str, int, int], None]  # activity, bytes done, all bytes (0: not known)
_listener: ContextVar[Progress | None] = ContextVar("listener", default=None)


@contextlib.contextmanager
def progress_to(listener: Progress) -> Iterator[None]:
    """Report to `listener` what is fetched in this block."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def report(what: str, done: int, total: int) -> None:
    if (listener := _listener.get()) is not None:
        listener(what, done, total)
