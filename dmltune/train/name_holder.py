"""Which process holds a name, and how to end it in order.

Whoever claims a name holds a lock that the kernel frees when the process ends, and notes itself beside the
lock as host:pid:start. The lock says whether there is a holder, the note which process it is: a pid that was
given to another process since then has another start.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from dmltune.provenance import has_ended, this_process
from dmltune.store import Store

LOCK, HOLDER = "lock", "holder"
POLL_S = 0.1


@dataclass(frozen=True)
class NameHolder:
    """A process that holds a name; `pid` is None when it left no note or its note is of an earlier holder."""

    host: str
    pid: int | None


def note_holder(folder: Path) -> None:
    """Note this process in the folder of the name, whose lock it must hold."""
    (folder / HOLDER).write_text(this_process(), encoding="utf-8")


def is_held(store: Store, name: str) -> bool:
    """Return whether a process holds the name. A shared lock is tried, so that two readers never collide."""
    try:
        descriptor = os.open(store.search_folder(name) / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(descriptor)
    return False


def name_holder(store: Store, name: str) -> NameHolder | None:
    """Return the process that holds the name, or None."""
    if not is_held(store, name):
        return None
    text = ""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        text = (store.search_folder(name) / HOLDER).read_text(encoding="utf-8")
    host, _, rest = text.partition(":")
    pid = rest.partition(":")[0]
    if not pid.isdigit() or has_ended(text):
        return NameHolder(socket.gethostname(), None)
    return NameHolder(host, int(pid))


def ask_to_stop(pid: int) -> None:
    """Send Ctrl-C's signal, or SIGTERM to a process that ignores it (one started in the background).

    The first signal ends a search in order. A second one would end it at once, so only one is sent.
    """
    os.kill(pid, signal.SIGTERM if _ignores(pid, signal.SIGINT) else signal.SIGINT)


def wait_until_free(store: Store, name: str, seconds: float) -> bool:
    """Wait until no process holds the name; False when one still does after `seconds`."""
    deadline = time.monotonic() + seconds
    while is_held(store, name):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def _ignores(pid: int, number: int) -> bool:
    """Return whether the process ignores the signal; False where the system does not tell (no /proc)."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("SigIgn:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def command_of(pid: int) -> str:
    """Return the command line of a process, or nothing when it is gone or may not be looked at."""
    with contextlib.suppress(psutil.Error):
        return " ".join(psutil.Process(pid).cmdline())
    return ""
