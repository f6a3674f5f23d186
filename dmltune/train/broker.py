"""The post office between trials and slots.

A trial posts an `Order` and asks for its reports one by one; a slot (one warm group of training workers)
takes an order, reports every validation and waits until the trial asks for the next. Nothing here computes;
everything may be repeated:

    trial                     broker                    slot, rank 0
    post(order)        ──▶    queue          ◀──        next_order(slot)
    next_report(k)     ◀──    reports[k+1]   ◀──        report(slot, id, report)
                                             ──▶        verdict(slot, id, k): "go" when k+1 is asked for
    close(id)          ──▶    closed         ──▶        verdict: "abandon"; wait_closed(id) ends

When a group dies its slot registers again and gets its current order again; a slot that is given up leaves it
to the others. An order whose workers die `max_attempts` times, or that raised an error on some rank, becomes
a failed report. When the broker itself dies Ray starts an empty one: trials then post again (`next_report`
answers None) and slots abandon what the new broker did not give them; the checkpoints on disk carry the work
over.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from dmltune.train.orders import Order, TrialReport, failed

MAX_ATTEMPTS = 3
Verdict = Literal["go", "abandon", "wait"]


@dataclass
class _State:
    order: Order
    reports: list[TrialReport] = field(default_factory=list)
    wanted: int = -1  # the trial asks for the report after this one; it wants the training to go on
    closed: bool = False
    attempts: int = 0
    crash: TrialReport | None = None

    @property
    def done(self) -> bool:
        return self.closed or bool(self.reports and self.reports[-1].finished)


class Broker:
    """Runs as one asynchronous Ray actor without a CPU; works as a plain object in tests."""

    def __init__(self, max_attempts: int = MAX_ATTEMPTS) -> None:
        self._max_attempts = max_attempts
        self._orders: dict[str, _State] = {}
        self._queue: deque[str] = deque()
        self._working: dict[str, str] = {}  # slot → order
        self._stopping = False
        self._changed = asyncio.Condition()

    # ---- for trials

    async def post(self, order: Order) -> None:
        async with self._changed:
            if order.id not in self._orders:
                self._orders[order.id] = _State(order)
                self._queue.append(order.id)
                self._changed.notify_all()

    async def next_report(self, order_id: str, after: int) -> TrialReport | None:
        """The first report with a number above `after`; None when the order is not known (post it again)."""
        async with self._changed:
            state = self._orders.get(order_id)
            if state is None:
                return None
            state.wanted = max(state.wanted, after)
            self._changed.notify_all()
            await self._changed.wait_for(lambda: state.closed or any(r.number > after for r in state.reports))
            later = [r for r in state.reports if r.number > after]
            return later[0] if later else failed("closed before it finished")

    async def close(self, order_id: str) -> None:
        """The trial wants no more of this order: stopped early, finished, or given up."""
        async with self._changed:
            if state := self._orders.get(order_id):
                state.closed = True
                if order_id not in self._working.values():
                    self._forget(order_id)
            self._changed.notify_all()

    # ---- for slots

    async def register(self, slot: str) -> None:
        """A (re)started group. What it was working on when it died is attempted again, or has failed."""
        async with self._changed:
            state = self._orders.get(self._working.get(slot, ""))
            if state is None or state.done:
                return
            state.attempts += 1
            if state.crash:
                state.reports.append(state.crash)
            elif state.attempts >= self._max_attempts:
                state.reports.append(failed(f"its workers died {state.attempts} times"))
            self._changed.notify_all()

    async def leave(self, slot: str) -> None:
        """A group that does not come back: its order is the next that another slot takes."""
        async with self._changed:
            order_id = self._working.pop(slot, "")
            state = self._orders.get(order_id)
            if state is None:
                return
            if state.closed:
                self._forget(order_id)
            elif not state.done:
                self._queue.appendleft(order_id)
            self._changed.notify_all()

    async def next_order(self, slot: str, wait_s: float) -> Order | Literal["idle", "stop"]:
        async with self._changed:
            current = self._working.get(slot)
            if current and not self._orders[current].done:
                return self._orders[current].order
            if current:
                del self._working[slot]
                if self._orders[current].closed:
                    self._forget(current)
            await self._wait(lambda: self._stopping or bool(self._queue), wait_s)
            if self._stopping:
                return "stop"
            while self._queue:
                order_id = self._queue.popleft()
                if order_id in self._orders:
                    self._working[slot] = order_id
                    return self._orders[order_id].order
            return "idle"

    async def report(self, slot: str, order_id: str, report: TrialReport) -> None:
        async with self._changed:
            state = self._orders.get(order_id)
            if state is None or self._working.get(slot) != order_id or state.done:
                return
            if state.reports and report.number <= state.reports[-1].number:
                return
            state.reports.append(report)
            self._changed.notify_all()

    async def verdict(self, slot: str, order_id: str, number: int, wait_s: float) -> Verdict:
        """Go on after report `number`? Waits until the trial asks for the next one or closes the order."""
        async with self._changed:
            state = self._orders.get(order_id)
            if state is None or self._working.get(slot) != order_id:
                return "abandon"
            await self._wait(lambda: state.done or state.wanted >= number, wait_s)
            if state.done:
                return "abandon"
            return "go" if state.wanted >= number else "wait"

    async def wait_closed(self, slot: str, order_id: str, wait_s: float) -> bool:
        """True when the slot should drop this order now, between two validations."""
        async with self._changed:
            state = self._orders.get(order_id)
            if state is None or self._working.get(slot) != order_id:
                return True
            await self._wait(lambda: state.done, wait_s)
            return state.done

    async def crashed(self, slot: str, order_id: str, error: str, details: str = "") -> None:
        """A rank raised an error of its own (not: lost its peer). The group restarts; the order fails with
        this reason.
        """
        async with self._changed:
            state = self._orders.get(order_id)
            if state is not None and self._working.get(slot) == order_id and not state.crash:
                state.crash = failed(error, details)

    async def stop(self) -> None:
        """No more orders: every slot ends."""
        async with self._changed:
            self._stopping = True
            for state in self._orders.values():
                state.closed = True
            self._changed.notify_all()

    async def _wait(self, condition: Callable[[], bool], seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait_for(condition), seconds)

    def _forget(self, order_id: str) -> None:
        self._orders.pop(order_id, None)
        if order_id in self._queue:
            self._queue.remove(order_id)
