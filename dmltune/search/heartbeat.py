"""The steps of running trials between two validations, for the live table: the driver asks the broker."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import ray

from dmltune.search.state import SearchState

EVERY_S = 2.0


@contextlib.contextmanager
def heartbeats(broker: Any, state: SearchState) -> Iterator[None]:
    """Write the steps into the search state every two seconds while the block runs."""
    over = threading.Event()

    def listen() -> None:
        while not over.wait(EVERY_S):
            with contextlib.suppress(ray.exceptions.RayError):  # the broker restarts, or the search ends
                steps: dict[str, int] = ray.get(broker.steps.remote(), timeout=EVERY_S)
                for order_id, step in steps.items():
                    state.note_step(int(order_id.rpartition("/")[2]), step)

    thread = threading.Thread(target=listen, name="heartbeats", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(2 * EVERY_S)
