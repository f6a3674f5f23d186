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

    unit projections: rungs are shares of the projections of the reference point, for CCP. early: one more
    rung at the first validations, which stops trials once these have proved to tell the order.
    """

    def __init__(
        self,
        reduction: Annotated[int, Ge(2)] = 3,
        rungs: Annotated[int, Interval(ge=1, le=10)] = 2,
        unit: Literal["steps", "projections"] = "steps",
        early: bool = True,
    ) -> None:
        self.reduction, self.rungs, self.unit, self.early = reduction, rungs, unit, early

    def build(self, budget: Budget) -> HalvingRule:
        shares = halving_shares(self.reduction, self.rungs)
        return HalvingRule(budget, shares, self.reduction, self.unit, self.early)


class HalvingRule:
    """Of N trials at a rung the best ⌈N/reduction⌉ go on; of equal ones the oldest."""

    def __init__(
        self, budget: Budget, shares: Sequence[Fraction], reduction: int, unit: Unit, early: bool = False
    ) -> None:
        self._ladder, self._reduction = Ladder(budget, shares, unit, early), reduction

    def report(self, trial: EngineTrial) -> Decision:
        for arrival in self._ladder.report(trial):
            if arrival.trial.number == trial.number and not trial.protected and self._stops(arrival):
                return "stop"
        return "continue"

    def _stops(self, arrival: Arrival) -> bool:
        if not self._ladder.decides(arrival):
            return False
        size = len(self._ladder.entries[arrival.rung])
        one_of = self._ladder.reduction(arrival.rung, self._reduction)
        return self._ladder.ahead_of(arrival) >= -(-size // one_of)

    def restore(self, trial: EngineTrial) -> None:
        self._ladder.restore(trial)

    def promote(self, closing: bool = False) -> int | None:
        return None

    def end(self, number: int) -> None:
        self._ladder.end(number)
