"""Why workers died: what Ray knows, what the process has left behind, and whose fault it was."""

from __future__ import annotations

import contextlib
import errno
import faulthandler
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ray
from ray.train import UserCallback

from dmltune.train.order_state import Fault

CRASH = "crash-{rank}.txt"  # in the trial's folder: what faulthandler writes at a fatal signal
NODE_LOST = "its node was lost"
NODE_NEWS_S = 3.0
KILLED = "killed by a signal, as the system does when memory runs out"
OUT_OF_MEMORY = (
    "out of memory: Ray ended it to save its node; fewer --concurrent or a smaller batch need less"
)
_FULL = (errno.ENOSPC, errno.EDQUOT)


class DeathReports(UserCallback):
    """Tells the broker when workers of a group died. The driver makes it; the group's controller runs it."""

    def __init__(self, group: str, broker: Any) -> None:
        self._group, self._broker, self._dead_nodes = group, broker, dead_nodes()

    def after_exception(self, run_context: Any, worker_exceptions: dict[int, Exception]) -> None:
        why, fault = judge(list(worker_exceptions.values()))
        if why == KILLED and self._lost_a_node():
            why, fault = NODE_LOST, "node"
        with contextlib.suppress(ray.exceptions.RayError):
            ray.get(self._broker.lost.remote(self._group, why, fault), timeout=30)

    def _lost_a_node(self) -> bool:
        """Wait a moment for the news of a lost node: that of its workers may come first."""
        with contextlib.suppress(Exception):  # a head that does not answer is told elsewhere
            until = time.monotonic() + NODE_NEWS_S
            while not (lost := dead_nodes() - self._dead_nodes):
                if time.monotonic() > until or len(ray.nodes()) < 2:  # type: ignore[no-untyped-call]
                    return False
                time.sleep(0.2)
            self._dead_nodes |= lost
            return True
        return False


def dead_nodes() -> frozenset[str]:
    """Return the ids of the nodes that the cluster has lost."""
    return frozenset(node["NodeID"] for node in ray.nodes() if not node["Alive"])  # type: ignore[no-untyped-call]


def judge(errors: list[Exception]) -> tuple[str, Fault]:
    """Return why workers died, and whose fault it was. A rank that lost its peer says nothing about that."""
    deaths = [error for each in errors if (error := _cause(each)) is not None]
    texts = [" ".join(str(error).split()) for error in deaths]
    if any(getattr(error, "preempted", False) or _node_died(str(error)) for error in deaths):
        return NODE_LOST, "node"
    if any("memory" in text and "OOM killer" not in text for text in texts) or any(
        isinstance(error, ray.exceptions.OutOfMemoryError) for error in deaths
    ):
        return OUT_OF_MEMORY, "worker"
    return (KILLED, "worker") if deaths else ("", "unclear")


def _cause(error: BaseException | None) -> BaseException | None:
    """Return Ray's error about a dead process inside the errors that Ray Train wraps around it."""
    seen = 0
    while error is not None and seen < 10:
        if isinstance(error, ray.exceptions.RayActorError | ray.exceptions.OutOfMemoryError):
            return error
        inner = getattr(error, "health_check_failure", None) or error.__cause__
        error, seen = (inner if isinstance(inner, BaseException) else None), seen + 1
    return None


def _node_died(text: str) -> bool:
    return "node has died" in text or "node is dead" in text or "node died" in text.lower()


def this_actor() -> Any:
    """Return the handle of the worker that calls; None in a process that is no actor."""
    if not ray.is_initialized():  # else Ray would start itself
        return None
    return ray.get_runtime_context().current_actor


@contextlib.contextmanager
def crash_notes(folder: Path, rank: int) -> Iterator[str]:
    """Let a fatal signal (a segmentation fault) leave its name in the folder of the order.

    Yields what the process before this one has left; nothing when it ended otherwise.
    """
    path, earlier = folder / CRASH.format(rank=rank), ""
    with contextlib.suppress(OSError):
        text = path.read_text(encoding="utf-8", errors="replace")
        if text.startswith("Fatal Python error: "):
            earlier = text.splitlines()[0].removeprefix("Fatal Python error: ")[:100].lower()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = path.open("w", encoding="utf-8")
    except OSError:  # a full disk: the training tells it
        yield earlier
        return
    with file:
        faulthandler.enable(file, all_threads=False)
        try:
            yield earlier
        finally:
            faulthandler.disable()
            path.unlink(missing_ok=True)


def is_full(error: BaseException) -> bool:
    """Return whether a disk is full. Some libraries tell it in a text only."""
    if isinstance(error, OSError) and error.errno in _FULL:
        return True
    return "no space left on device" in str(error).lower()
