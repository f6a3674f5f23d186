"""Limits of a search beside its number of trials: time of a session, work of all sessions."""

from __future__ import annotations

import time as clock
from dataclasses import dataclass, field

from dmltune.errors import UserError
from dmltune.search.state import SearchState


@dataclass
class SpendingLimits:
    """`time` in seconds; `cost` in seconds of all worker processes together."""

    time: float | None = None
    cost: float | None = None
    workers: int = 1
    _started: float = field(default=0.0, repr=False)
    _state: SearchState | None = field(default=None, repr=False)

    def require_positive(self) -> None:
        for option, value in (("--time", self.time), ("--cost", self.cost)):
            if value is not None and value <= 0:
                raise UserError(f"{option} must be above 0; got {value:g} s")

    def start(self, state: SearchState) -> float | None:
        """Begin to count; return when the time is up."""
        self._state, self._started = state, clock.monotonic()
        return self._started + self.time if self.time else None

    def used(self) -> float:
        """Return the share of time or cost that is used up, whichever is more."""
        time_used = (clock.monotonic() - self._started) / self.time if self.time and self._started else 0.0
        return max(time_used, self.cost_used())

    def cost_used(self) -> float:
        if not self.cost or self._state is None:
            return 0.0
        seconds = sum(row.seconds for row in self._state.snapshot().rows.values())
        return self.workers * seconds / self.cost
