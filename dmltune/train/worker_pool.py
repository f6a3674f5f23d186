"""Fixed experiments on warm slots, several at a time: folds, seeds, the rows of a table.

A search decides after every validation who goes on; here everybody does. Each order trains in its own folder,
where a killed training goes on from its last checkpoint and a finished one is only read.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from dmltune.core import checkpoint
from dmltune.errors import UserError
from dmltune.train.orders import Order, TrialReport
from dmltune.train.ray_session import ResourcePlan, plan, ray_session
from dmltune.train.slots import Slots, running_slots
from dmltune.train.stop_signals import stop_signals

LOOK_S = 1.0  # how often the wish to stop and the slots' health are looked at, at least


@contextlib.contextmanager
def worker_pool(
    *,
    workers: int = 1,
    concurrent: int | None = None,
    isolation: Literal["slot", "trial"] = "slot",
    address: str | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Iterator[WorkerPool]:
    """Warm slots until the block ends; `WorkerPool.train` may be called again and again.

    Meanwhile the first Ctrl-C (or SIGTERM) ends what is being trained cleanly: `WorkerPool.stopped`.
    """
    # Ray takes the signals when it starts, so they are taken after it
    with ray_session(address) as session, stop_signals(say) as stopped:
        layout = plan(session, workers, concurrent)
        with running_slots(session, layout, isolation) as slots:
            yield WorkerPool(slots, layout, stopped)


@dataclass(frozen=True)
class WorkerPool:
    slots: Slots
    layout: ResourcePlan
    stopped: threading.Event  # somebody wants the end

    def train(self, orders: Iterable[Order]) -> Iterator[tuple[str, TrialReport]]:
        """(order id, report) for every validation of every order, as they come; the last one of an order is
        finished or failed. Ends early, with orders under way closed, once `stopped` is set.
        """
        import ray

        # the broker may still know an order of an earlier call that it was told to close
        call = secrets.token_hex(4)
        broker, left = self.slots.broker, deque(orders)
        waiting: dict[Any, tuple[Order, int]] = {}  # an answer to come → its order, the number before it

        def ask(order: Order, number: int) -> None:
            waiting[broker.next_report.remote(order.id, number)] = (order, number)

        def begin() -> None:
            while left and len(waiting) < self.layout.concurrent:
                order = left.popleft()
                order = replace(order, id=f"{order.id}#{call}", threads=self.layout.threads)
                ray.get(broker.post.remote(order))
                ask(order, -1)

        try:
            begin()
            while waiting and not self.stopped.is_set():
                ready, _ = ray.wait(list(waiting), timeout=LOOK_S)
                if not ready and (failure := self.slots.failure()) is not None:
                    raise failure
                for answer in ready:
                    order, number = waiting.pop(answer)
                    report: TrialReport | None = ray.get(answer)
                    if report is None:  # the broker was restarted and does not know the order any more
                        ray.get(broker.post.remote(order))
                        ask(order, number)
                        continue
                    if report.finished:
                        ray.get(broker.close.remote(order.id))
                        begin()  # the slot need not wait for whoever reads this report
                    else:
                        ask(order, report.number)
                    yield order.id.removesuffix(f"#{call}"), report
        finally:
            with contextlib.suppress(ray.exceptions.RayError):
                ray.get([broker.close.remote(order.id) for order, _ in waiting.values()])


def finished_report(folder: Path) -> TrialReport | None:
    """The last report of a training that finished in this folder; None when something is left to do."""
    if not (folder / "last" / checkpoint.CHECKPOINT).is_file():
        return None
    with contextlib.suppress(UserError):  # damaged: the worker says so
        report = TrialReport(**checkpoint.load(folder / "last")[1]["report"])
        return report if report.finished else None
    return None
