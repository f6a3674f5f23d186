"""Does the head of the cluster still answer? Without its GCS Ray ends this process, often without a word."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator

from dmltune.errors import UserError, readable
from dmltune.train.cluster_address import parse_address

LOOK_S = 0.5
_GIVEN_UP = "RAY_gcs_rpc_server_reconnect_timeout_s"  # environment: how long Ray's clients wait for the GCS
_USUAL_S = 60  # Ray's default
MARGIN_S = 60.0  # after that time Ray ends this process, except when something hangs


@contextlib.contextmanager
def head_watch(
    address: str, log: Callable[[str], None], end: Callable[[int], object] = os._exit
) -> Iterator[None]:
    """Tell when the GCS at `address` goes away, and when it is back; `end` the process when it stays away.

    Whatever the workers have reported is stored, so an end at any moment loses nothing. An address that
    cannot be reached at the beginning (Ray Client has a way of its own) is not watched.
    """
    place, over, patience = parse_address(address), threading.Event(), given_up_after() + MARGIN_S
    if not _answers(place):
        yield
        return

    def watch() -> None:
        away_since: float | None = None
        while not over.wait(LOOK_S):
            if _answers(place):
                if away_since is not None:
                    log(f"the head of the Ray cluster at {address} answers again")
                away_since = None
            elif away_since is None:
                away_since = time.monotonic()
                log(
                    f"the head of the Ray cluster at {address} does not answer: Ray will end this command. "
                    "Start the cluster; the same command continues."
                )
            elif time.monotonic() - away_since > patience:
                end(1)
                return

    threading.Thread(target=watch, name="head", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def given_up_after() -> int:
    """Return the seconds for which Ray's clients wait for the GCS.

    Ray reads the variable too, and any other text ends the process with a segmentation fault.
    """
    text = os.environ.get(_GIVEN_UP)
    if text is None:
        return _USUAL_S
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise UserError(f"{_GIVEN_UP} must be a whole number of seconds; got {readable(text)}. Unset it.")
    return int(text)


def _answers(place: tuple[str, int]) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(place, timeout=5.0):
        return True
    return False
