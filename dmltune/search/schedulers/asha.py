"""Asynchronous successive halving: a trial that is not among the best of its rung is stopped."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Literal

from annotated_types import Ge, Interval

from dmltune.search.engine_trial import Decision, EngineTrial
from dmltune.search.rungs import Arrival, Ladder, Unit, halving_shares
from dmltune.search.schedulers import Budget


class Asha:
    """Stop at rungs max_steps/reduction^k, k = rungs … 1: the best 1/reduction goes on (Li et al. 2020).

    unit projections: rungs are shares of the projections of the reference point, for CCP.
    """

    def __init__(
        self,
        reduction: Annotated[int, Ge(2)] = 3,
        rungs: Annotated[int, Interval(ge=1, le=10)] = 2,
        unit: Literal["steps", "projections"] = "steps",
    ) -> None:
        self.reduction, self.rungs, self.unit = reduction, rungs, unit

    def build(self, budget: Budget) -> HalvingRule:
        return HalvingRule(budget, halving_shares(self.reduction, self.rungs), self.reduction, self.unit)


class HalvingRule:
    """Of N trials at a rung the best ⌈N/reduction⌉ go on; of equal ones the oldest."""

    def __init__(self, budget: Budget, shares: Sequence[Fraction], reduction: int, unit: Unit) -> None:
        self._ladder, self._reduction = Ladder(budget, shares, unit), reduction

    def report(self, trial: EngineTrial) -> Decision:
        for arrival in self._ladder.report(trial):
            if arrival.trial.number == trial.number and not trial.protected and self._stops(arrival):
                return "stop"
        return "continue"

    def _stops(self, arrival: Arrival) -> bool:
        size = len(self._ladder.entries[arrival.rung])
        return self._ladder.ahead_of(arrival) >= -(-size // self._reduction)

    def restore(self, trial: EngineTrial) -> None:
        self._ladder.restore(trial)

    def promote(self, closing: bool = False) -> int | None:
        return None

    def end(self, number: int) -> None:
        self._ladder.end(number)
