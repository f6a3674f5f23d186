"""What the broker knows of an order: its reports, who waits for them, and how its workers have ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from dmltune.train.orders import Order, TrialReport

MAX_ATTEMPTS = 2  # at an order that kills its workers
MAX_UNCLEAR = 4  # in all, when nobody knows whether the order or its node is to blame
HUNG_S = 1800.0  # the patience without a step or a report; or this many times the longest pause so far:
PAUSES = 20
Fault = Literal["worker", "node", "unclear"]


class Signal:
    """Wakes those who wait for a condition; those of other signals sleep on."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def notify(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
        self._waiting.clear()

    async def wait(self, condition: Callable[[], bool], seconds: float) -> None:
        """Return when the condition holds, or after `seconds`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while not condition() and (left := deadline - loop.time()) > 0:
            future: asyncio.Future[None] = loop.create_future()
            self._waiting.add(future)
            try:
                await asyncio.wait({future}, timeout=left)
            finally:
                self._waiting.discard(future)


@dataclass
class OrderState:
    order: Order
    group: str = ""  # that works on it
    reports: list[TrialReport] = field(default_factory=list)
    wanted: int = -1  # the trial asks for the report after this one: training may go on
    asker: str = ""  # who asked for the next report last
    paused: bool = False
    closed: bool = False
    attempts: int = 0  # that killed their workers
    unclear: int = 0
    death: str = ""  # why workers died, as far as it is known
    moved: float = field(default_factory=lambda: time.monotonic())  # when it was last seen to get on
    crash: TrialReport | None = None
    step: int = 0  # of the training, between two validations too
    changed: Signal = field(default_factory=Signal)

    @property
    def finished(self) -> bool:
        return self.closed or bool(self.reports and self.reports[-1].finished)

    @property
    def left(self) -> bool:
        """Whether no group should work on it."""
        return self.paused or self.finished

    def later(self, after: int) -> TrialReport | None:
        """Return the first report with a number above `after`. The last one is asked for most often."""
        if not self.reports or self.reports[-1].number <= after:
            return None
        return next(report for report in self.reports if report.number > after)

    def note_progress(self) -> float:
        """Note a step or a report; return the seconds since the one before."""
        now = time.monotonic()
        pause, self.moved = now - self.moved, now
        return pause

    def may_try_again(self, why: str, fault: Fault, max_attempts: int) -> bool:
        """Note the end of workers. Without another attempt the order has failed."""
        if fault != "node":
            self.death = self.death or why
        self.attempts += fault == "worker"
        self.unclear += fault == "unclear"
        times = self.attempts + self.unclear
        if self.crash:
            self.reports.append(self.crash)
        elif self.attempts >= max_attempts or times >= MAX_UNCLEAR:
            reason = f": {self.death}" if self.death else ""
            self.reports.append(TrialReport.failed(f"its workers died {times} times{reason}"))
        else:
            return True
        return False
