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
because Ray restarted the broker. A group whose workers died leaves its order to the first group that is free,
itself included. An order that kills its workers `max_attempts` times, or that raised an error on some rank,
becomes a failed report. The loss of a node or of a group's controller is not the order's fault and does not
count. A group without any progress for a long time is restarted, and that counts.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Literal

from dmltune.train.order_state import HUNG_S, MAX_ATTEMPTS, PAUSES, Fault, OrderState, Signal
from dmltune.train.orders import Order, TrialReport

LOOK_S = 5.0  # how often a waiting question looks for a hung group
Verdict = Literal["go", "leave", "wait"]


class Broker:
    """Runs as one asynchronous Ray actor without a CPU; works as a plain object in tests."""

    def __init__(
        self,
        max_attempts: int = MAX_ATTEMPTS,
        hung_after: float | None = None,
        kill: Callable[[Any], None] = lambda rank: None,
    ) -> None:
        """`kill` ends a process of a group; `hung_after` replaces the measured patience with seconds."""
        self._max_attempts = max_attempts
        self._hung_after, self._kill = hung_after, kill
        self._longest_pause = 0.0  # of any order, between two steps or reports
        self._ranks: dict[str, list[Any]] = {}  # group → what `kill` takes
        self._released: set[str] = set()
        self._orders: dict[str, OrderState] = {}
        self._queue: deque[str] = deque()
        self._working: dict[str, str] = {}  # group → order
        self._stopping = False
        self._idle = Signal()  # of groups that wait for an order

    # ---- for trials

    async def next_report(self, order: Order, after: int, asker: str = "") -> TrialReport:
        """Wait for the first report with a number above `after`. A new or paused order is queued first."""
        state = self._orders.setdefault(order.id, OrderState(order))
        state.asker = asker
        state.wanted = max(state.wanted, after)
        state.paused = False
        if not state.finished and not state.group and order.id not in self._queue:
            self._queue.append(order.id)
        self._tell(state)

        def answered() -> bool:
            return state.closed or state.later(after) is not None

        while not answered():
            await state.changed.wait(answered, LOOK_S)
            self._end_hung(state)
        return state.later(after) or TrialReport.failed("closed before it finished")

    async def pause(self, order_id: str, asker: str = "") -> None:
        """Let the group leave this order at once. Its checkpoint stays; asking for a report continues it.

        An `asker` pauses only its own question: another one may have asked for the order since.
        """
        state = self._orders.get(order_id)
        if state is not None and not state.finished and asker in ("", state.asker):
            state.paused = True
            self._unqueue(order_id)
            self._tell(state)

    async def close(self, order_id: str) -> None:
        """The trial wants no more of this order: stopped early, finished, or given up."""
        if state := self._orders.get(order_id):
            state.closed = True
            if not state.group:
                self._forget(order_id)
            self._tell(state)

    async def steps(self) -> dict[str, int]:
        """Return the steps of the orders that are worked on, as their groups have told them."""
        return {each: self._orders[each].step for each in self._working.values() if each in self._orders}

    # ---- for worker groups

    async def register(self, group: str) -> None:
        """A (re)started group. What it was working on without a word of its death is attempted again."""
        self._ranks[group] = []
        if group in self._working:
            self._give_back(group, "", "worker")

    async def join(self, group: str, rank: Any) -> None:
        """A process of the group, as `kill` takes it."""
        self._ranks.setdefault(group, []).append(rank)

    async def lost(self, group: str, why: str, fault: Fault) -> None:
        """Workers of the group died. Its order goes to the next group that is free."""
        self._ranks.pop(group, None)
        if group in self._working:
            self._give_back(group, why, fault)

    async def note_death(self, order_id: str, why: str) -> None:
        """What a process has left behind about its end, read by the next one that works on the order."""
        if state := self._orders.get(order_id):
            state.death = why

    async def release(self, group: str) -> None:
        """Let the group end when it has no order."""
        self._released.add(group)
        self._idle.notify()

    async def load(self) -> dict[str, int]:
        """Return how many orders wait, and which groups have registered, with 1 for those that work."""
        return {"": len(self._queue)} | {name: int(name in self._working) for name in self._ranks}

    async def resign(self, group: str) -> None:
        """A group that does not come back: another one takes its order next."""
        order_id = self._working.pop(group, "")
        self._ranks.pop(group, None)
        state = self._orders.get(order_id)
        if state is None:
            return
        state.group = ""
        if state.closed:
            self._forget(order_id)
        elif not state.left:
            self._queue.appendleft(order_id)
        self._tell(state)

    async def next_order(self, group: str, wait_s: float) -> Order | Literal["idle", "stop"]:
        self._ranks.setdefault(group, [])
        current = self._working.get(group)
        if current and not self._orders[current].left:
            return self._orders[current].order
        if current:
            self._release(group, current)

        def over() -> bool:
            return self._stopping or group in self._released

        await self._idle.wait(lambda: over() or bool(self._queue), wait_s)
        if over():
            self._ranks.pop(group, None)
            return "stop"
        while self._queue:
            order_id = self._queue.popleft()
            if order_id in self._orders:
                state = self._orders[order_id]
                self._working[group], state.group = order_id, group
                state.moved = time.monotonic()
                return state.order
        return "idle"

    async def report(self, group: str, order_id: str, report: TrialReport) -> None:
        state = self._orders.get(order_id)
        if state is None or self._working.get(group) != order_id or state.finished:
            return
        if state.reports and report.number <= state.reports[-1].number:
            return
        state.reports.append(report)
        self._longest_pause = max(self._longest_pause, state.note_progress())
        self._tell(state)

    async def verdict(self, group: str, order_id: str, number: int, wait_s: float) -> Verdict:
        """Go on after report `number`? Wait until the trial asks for the next one or wants no more."""
        state = self._orders.get(order_id)
        if state is None or self._working.get(group) != order_id:
            return "leave"
        await state.changed.wait(lambda: state.left or state.group != group or state.wanted >= number, wait_s)
        if state.left or state.group != group:  # another group has it since
            return "leave"
        state.moved = time.monotonic()  # it was the trial that let it wait
        return "go" if state.wanted >= number else "wait"

    async def wait_left(self, group: str, order_id: str, wait_s: float, step: int = 0) -> bool:
        """Note the step; return True when the group should drop this order now, between two validations."""
        state = self._orders.get(order_id)
        if state is None or self._working.get(group) != order_id:
            return True
        if step != state.step:
            state.step = step
            self._longest_pause = max(self._longest_pause, state.note_progress())
        await state.changed.wait(lambda: state.left or state.group != group, wait_s)
        return state.left or state.group != group

    async def is_closed(self, order_id: str) -> bool:
        """Whether nobody will ask for this order again: its files need not be brought to the store."""
        state = self._orders.get(order_id)
        return state is not None and state.closed

    async def crashed(self, group: str, order_id: str, error: str, details: str = "") -> None:
        """A rank raised an error of its own (not: lost its peer). The group restarts; the order fails."""
        state = self._orders.get(order_id)
        if state is not None and self._working.get(group) == order_id and not state.crash:
            state.crash = TrialReport.failed(error, details)

    async def stop(self) -> None:
        """No more orders: every group ends."""
        self._stopping = True
        for state in self._orders.values():
            state.closed = True
            self._tell(state)
        self._idle.notify()

    def _give_back(self, group: str, why: str, fault: Fault) -> None:
        """Take the order from a group whose workers died; queue it first, or fail it."""
        order_id = self._working.pop(group)
        state = self._orders[order_id]
        state.group = ""
        if state.closed:
            self._forget(order_id)
        elif not state.left and state.may_try_again(why, fault, self._max_attempts):
            self._queue.appendleft(order_id)
        self._tell(state)

    def _end_hung(self, state: OrderState) -> None:
        """End the processes of a group that has not got on for too long; it starts again."""
        limit = self._hung_after or max(HUNG_S, PAUSES * self._longest_pause)
        pause = time.monotonic() - state.moved
        if not state.group or pause < limit or state.left:
            return
        state.death = f"no step and no report for {pause:.0f} s"
        state.moved = time.monotonic()  # until it is killed
        for rank in self._ranks.pop(state.group, []):
            self._kill(rank)

    def _tell(self, state: OrderState) -> None:
        """Wake those who wait for a change of this order, and the groups without one."""
        state.changed.notify()
        self._idle.notify()

    def _release(self, group: str, order_id: str) -> None:
        """Note that the group has left its order."""
        del self._working[group]
        state = self._orders[order_id]
        state.group = ""
        if state.closed:
            self._forget(order_id)

    def _unqueue(self, order_id: str) -> None:
        if order_id in self._queue:
            self._queue.remove(order_id)

    def _forget(self, order_id: str) -> None:
        self._orders.pop(order_id, None)
        self._unqueue(order_id)


def kill_actor(actor: Any) -> None:
    """End a worker that does not answer. Ray is loaded in the broker's process anyway."""
    import ray

    with contextlib.suppress(ray.exceptions.RayError, ValueError):
        ray.kill(actor, no_restart=True)
