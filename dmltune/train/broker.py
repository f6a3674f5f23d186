"""The broker hands the orders of trials to worker groups, and their reports back.

A trial asks for the reports of its order one by one. A worker group takes an order, reports every
validation and waits until the trial asks for the next. Nothing here computes. Every call may be repeated:

    trial                          broker                 worker group, rank 0
    next_report(order, k)    ──▶   queue          ◀──     next_order(group)
                             ◀──   reports[k+1]   ◀──     report(group, id, report)
                                                  ──▶     verdict(group, id, k): "go" when k+1 is asked for
    pause(id, asker)         ──▶   paused         ──▶     verdict: "leave"; the checkpoint stays
    close(id)                ──▶   closed         ──▶     verdict: "leave"; wait_left(id) ends

The order travels with every question, so asking for a report posts an order that is new, paused, or lost
because Ray restarted the broker. A restarted group registers again and gets its current order again; a group
that is given up leaves its order to the others. An order whose workers die `max_attempts` times, or that
raised an error on some rank, becomes a failed report.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from dmltune.train.orders import Order, TrialReport

MAX_ATTEMPTS = 3
Verdict = Literal["go", "leave", "wait"]


@dataclass
class _OrderState:
    order: Order
    reports: list[TrialReport] = field(default_factory=list)
    wanted: int = -1  # the trial asks for the report after this one: training may go on
    asker: str = ""  # who asked for the next report last
    paused: bool = False
    closed: bool = False
    attempts: int = 0
    crash: TrialReport | None = None
    step: int = 0  # of the training, between two validations too

    @property
    def finished(self) -> bool:
        return self.closed or bool(self.reports and self.reports[-1].finished)

    @property
    def left(self) -> bool:
        """Whether no group should work on it."""
        return self.paused or self.finished


class Broker:
    """Runs as one asynchronous Ray actor without a CPU; works as a plain object in tests."""

    def __init__(self, max_attempts: int = MAX_ATTEMPTS) -> None:
        self._max_attempts = max_attempts
        self._orders: dict[str, _OrderState] = {}
        self._queue: deque[str] = deque()
        self._working: dict[str, str] = {}  # group → order
        self._stopping = False
        self._changed = asyncio.Condition()

    # ---- for trials

    async def next_report(self, order: Order, after: int, asker: str = "") -> TrialReport:
        """Wait for the first report with a number above `after`. A new or paused order is queued first."""
        async with self._changed:
            state = self._orders.setdefault(order.id, _OrderState(order))
            state.asker = asker
            state.wanted = max(state.wanted, after)
            state.paused = False
            if not state.finished and order.id not in self._working.values() and order.id not in self._queue:
                self._queue.append(order.id)
            self._changed.notify_all()
            await self._changed.wait_for(lambda: state.closed or any(r.number > after for r in state.reports))
            later = [r for r in state.reports if r.number > after]
            return later[0] if later else TrialReport.failed("closed before it finished")

    async def pause(self, order_id: str, asker: str = "") -> None:
        """Let the group leave this order at once. Its checkpoint stays; asking for a report continues it.

        An `asker` pauses only its own question: another one may have asked for the order since.
        """
        async with self._changed:
            state = self._orders.get(order_id)
            if state is not None and not state.finished and asker in ("", state.asker):
                state.paused = True
                self._unqueue(order_id)
            self._changed.notify_all()

    async def close(self, order_id: str) -> None:
        """The trial wants no more of this order: stopped early, finished, or given up."""
        async with self._changed:
            if state := self._orders.get(order_id):
                state.closed = True
                if order_id not in self._working.values():
                    self._forget(order_id)
            self._changed.notify_all()

    async def steps(self) -> dict[str, int]:
        """Return the steps of the orders that are worked on, as their groups have told them."""
        return {each: self._orders[each].step for each in self._working.values() if each in self._orders}

    # ---- for worker groups

    async def register(self, group: str) -> None:
        """A (re)started group. What it was working on when it died is attempted again, or has failed."""
        async with self._changed:
            state = self._orders.get(self._working.get(group, ""))
            if state is None or state.finished:
                return
            state.attempts += 1
            if state.crash:
                state.reports.append(state.crash)
            elif state.attempts >= self._max_attempts:
                state.reports.append(TrialReport.failed(f"its workers died {state.attempts} times"))
            self._changed.notify_all()

    async def resign(self, group: str) -> None:
        """A group that does not come back: another one takes its order next."""
        async with self._changed:
            order_id = self._working.pop(group, "")
            state = self._orders.get(order_id)
            if state is None:
                return
            if state.closed:
                self._forget(order_id)
            elif not state.left:
                self._queue.appendleft(order_id)
            self._changed.notify_all()

    async def next_order(self, group: str, wait_s: float) -> Order | Literal["idle", "stop"]:
        async with self._changed:
            current = self._working.get(group)
            if current and not self._orders[current].left:
                return self._orders[current].order
            if current:
                self._release(group, current)
            await self._wait(lambda: self._stopping or bool(self._queue), wait_s)
            if self._stopping:
                return "stop"
            while self._queue:
                order_id = self._queue.popleft()
                if order_id in self._orders:
                    self._working[group] = order_id
                    return self._orders[order_id].order
            return "idle"

    async def report(self, group: str, order_id: str, report: TrialReport) -> None:
        async with self._changed:
            state = self._orders.get(order_id)
            if state is None or self._working.get(group) != order_id or state.finished:
                return
            if state.reports and report.number <= state.reports[-1].number:
                return
            state.reports.append(report)
            self._changed.notify_all()

    async def verdict(self, group: str, order_id: str, number: int, wait_s: float) -> Verdict:
        """Go on after report `number`? Wait until the trial asks for the next one or wants no more."""
        async with self._changed:
            state = self._orders.get(order_id)
            if state is None or self._working.get(group) != order_id:
                return "leave"
            await self._wait(lambda: state.left or state.wanted >= number, wait_s)
            if state.left:
                return "leave"
            return "go" if state.wanted >= number else "wait"

    async def wait_left(self, group: str, order_id: str, wait_s: float, step: int = 0) -> bool:
        """Note the step; return True when the group should drop this order now, between two validations."""
        async with self._changed:
            state = self._orders.get(order_id)
            if state is None or self._working.get(group) != order_id:
                return True
            state.step = step
            await self._wait(lambda: state.left, wait_s)
            return state.left

    async def is_closed(self, order_id: str) -> bool:
        """Whether nobody will ask for this order again: its files need not be brought to the store."""
        state = self._orders.get(order_id)
        return state is not None and state.closed

    async def crashed(self, group: str, order_id: str, error: str, details: str = "") -> None:
        """A rank raised an error of its own (not: lost its peer). The group restarts; the order fails."""
        async with self._changed:
            state = self._orders.get(order_id)
            if state is not None and self._working.get(group) == order_id and not state.crash:
                state.crash = TrialReport.failed(error, details)

    async def stop(self) -> None:
        """No more orders: every group ends."""
        async with self._changed:
            self._stopping = True
            for state in self._orders.values():
                state.closed = True
            self._changed.notify_all()

    async def _wait(self, condition: Callable[[], bool], seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait_for(condition), seconds)

    def _release(self, group: str, order_id: str) -> None:
        """Note that the group has left its order."""
        del self._working[group]
        state = self._orders[order_id]
        if state.closed:
            self._forget(order_id)

    def _unqueue(self, order_id: str) -> None:
        if order_id in self._queue:
            self._queue.remove(order_id)

    def _forget(self, order_id: str) -> None:
        self._orders.pop(order_id, None)
        self._unqueue(order_id)
