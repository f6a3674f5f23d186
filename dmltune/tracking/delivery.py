"""Writes to a server that may be away: at once, or from the spool, in their order and exactly once."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dmltune import tags
from dmltune.errors import UserError, readable
from dmltune.tracking.absence import is_away, reason_of
from dmltune.tracking.spool import Spool, Write

FIRST_S, LONGEST_S = 1.0, 15.0  # between two attempts to deliver

WAIT_S = "DMLTUNE_TRACKING_WAIT"  # environment: seconds that the end of a search waits for the server


def patience() -> float:
    """Return how long the end of a search waits for a server that is away, in seconds."""
    text = os.environ.get(WAIT_S, "60")
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:
        raise UserError(f"{WAIT_S} must be a number of seconds; got {readable(text)}. Use 60.")
    return seconds


class Delivery:
    """Calls `call(method, arguments, again)` for each write; `again`: the server may have it already.

    The first write that the server does not take waits in `folder` with all that follow, and a thread
    delivers them. `notes` are lines for the user.
    """

    def __init__(self, folder: Path, server: str, call: Callable[[str, dict[str, Any], bool], Any]) -> None:
        self.notes: deque[str] = deque()
        self._server, self._call = server, call
        self._spool = Spool(folder)
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None
        self._away_since = 0.0

    @property
    def away(self) -> bool:
        """Whether writes wait for the server."""
        return bool(self._spool.waiting)

    def send(self, method: str, arguments: dict[str, Any], files: str = "") -> Any:
        """Return what the call returns; None when it waits.

        `files` names the argument with a path that must outlive its owner.
        """
        with self._lock:
            if self._failure is not None:
                raise self._failure
            if not self.away:
                try:
                    return self._call(method, arguments, False)
                except Exception as error:
                    if not is_away(error):
                        raise
                    self._begin_waiting(error)
            stored = dict(arguments)
            if files:
                stored[files] = str(self._spool.keep_files(Path(arguments[files])))
            self._spool.append(method, stored)
            if self._thread is None:
                self._thread = threading.Thread(target=self._deliver_later, name="delivery", daemon=True)
                self._thread.start()
        return None

    def deliver(self) -> None:
        """Deliver what an earlier session has left. A server that does not take it is a UserError."""
        if not self.away:
            return
        try:
            count = self._drain()
        except UserError:
            raise
        except Exception as error:
            raise self.undelivered(reason_of(error)) from None
        self.notes.append(f"the tracking server has got {count} writes of an earlier session")

    def flush(self, seconds: float) -> None:
        """Wait until all is delivered; after `seconds` a UserError says what is missing."""
        deadline = time.monotonic() + seconds
        while self.away and self._failure is None and time.monotonic() < deadline:
            time.sleep(0.1)
        if self._failure is not None:
            raise self._failure
        if self.away:
            raise self.undelivered("it does not answer")

    def undelivered(self, reason: str) -> UserError:
        waiting = list(self._spool.waiting)
        about = sorted({_subject(write) for write in waiting} - {""})
        models = sum(write.method == "log_model" for write in waiting)
        shown = ", ".join(about[:8]) + (f" and {len(about) - 8} more" if len(about) > 8 else "")
        return UserError(
            f"the tracking server {self._server} lacks {len(waiting)} writes, {models} of them models, of "
            f"{shown or 'the search'} ({reason[:200]}). They wait in {self._spool.path}; the same command "
            "delivers them when the server answers."
        )

    def _begin_waiting(self, error: Exception) -> None:
        self._away_since = time.monotonic()
        self.notes.append(
            f"the tracking server does not take what is written ({reason_of(error)[:160]}); the search goes "
            f"on, and its figures wait in {self._spool.path}"
        )

    def _deliver_later(self) -> None:
        pause = FIRST_S
        while True:
            time.sleep(pause)
            if self._failure is not None:
                return
            try:
                self._drain()
            except Exception as error:
                if is_away(error):
                    pause = min(2 * pause, LONGEST_S)
                    continue
                with self._lock:
                    self._failure = self.undelivered(f"it refuses them: {reason_of(error)}")
                return
            with self._lock:
                if self.away:
                    continue
                self._thread = None
                seconds = time.monotonic() - self._away_since
                self.notes.append(
                    f"the tracking server answers again after {seconds:.0f} s, and has got all that waited"
                )
                return

    def _drain(self) -> int:
        """Deliver the writes in their order; return how many."""
        count = 0
        while True:
            with self._lock:
                write = self._spool.waiting[0] if self._spool.waiting else None
            if write is None:
                return count
            self._call(write.method, write.arguments, True)
            with self._lock:
                self._spool.done(write)
            count += 1


def _subject(write: Write) -> str:
    """Return which trial a write is about, as a user knows it."""
    if write.method == "begin_run":
        return f"trial {write.arguments['key'][tags.NUMBER].lstrip('0') or '0'}"
    name, _, number = str(write.arguments.get("run_id", "")).removeprefix("pending/").partition("/")
    if number:
        return f"trial {number.lstrip('0') or '0'}"
    return f"run {name[:8]}" if name else ""
