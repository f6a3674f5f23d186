"""Ctrl-C and SIGTERM as a wish to stop in order."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

# Who ends a job signals its whole process tree, and a parent passes the signal on: both are one wish.
TOGETHER_S = 0.3


@contextlib.contextmanager
def stop_signals(log: Callable[[str], None]) -> Iterator[threading.Event]:
    """Yield an event that the first signal sets; the second one interrupts (main thread only)."""
    stopped = threading.Event()
    since: list[float] = []
    if threading.current_thread() is not threading.main_thread():
        yield stopped
        return

    def on_signal(number: int, frame: FrameType | None) -> None:
        if stopped.is_set():
            if time.monotonic() - since[0] > TOGETHER_S:
                raise KeyboardInterrupt
            return
        since.append(time.monotonic())
        stopped.set()
        log("stopping cleanly; once more to stop at once")

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
