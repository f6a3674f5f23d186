"""Asynchronous successive halving: a trial that is not among the best of its rung is stopped.

Ray's and Syne Tune's rule lets the first trials go on, because nothing was there to compare them with: four
workers spend a tenth of a search of 40 trainings on its first four points. Here such a trial waits. On the
16 tables of benchmarks/search_public.py with curves, 3 seeds, Sobol points, the regret after 10, 15, 20 and
25 % of the budget was .526, .356, .293 and .248 without and .337, .293, .244 and .224 with the pause.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Literal

from annotated_types import Ge, Interval

from dmltune.search.engine_trial import Decision, EngineTrial
from dmltune.search.rungs import Ladder, Unit, halving_shares
from dmltune.search.schedulers import Budget
from dmltune.search.schedulers.promote import PausedTrials, next_to_continue


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
    """Of N trials at a rung the best ⌊N/reduction⌋ go on, and one more waits; of equal ones the oldest leads.

    Who is among ⌈N/reduction⌉ and not among ⌊N/reduction⌋ would go on only because few came before it. It is
    paused until others have come: then it goes on, or stays where it is.
    """

    def __init__(
        self, budget: Budget, shares: Sequence[Fraction], reduction: int, unit: Unit, early: bool = False
    ) -> None:
        self._ladder, self._reduction = Ladder(budget, shares, unit, early), reduction
        self._paused = PausedTrials()

    def report(self, trial: EngineTrial) -> Decision:
        for arrival in self._ladder.report(trial):
            own = arrival.trial.number == trial.number and not trial.protected
            if own and self._ladder.decides(arrival):
                ahead, size = self._ladder.ahead_of(arrival), len(self._ladder.entries[arrival.rung])
                one_of = self._ladder.reduction(arrival.rung, self._reduction)
                if ahead >= -(-size // one_of):
                    return "stop"
                if ahead >= size // one_of:
                    self._paused.add(arrival)
                    return "pause"
        return "continue"

    def restore(self, trial: EngineTrial) -> None:
        for arrival in self._ladder.restore(trial):
            if arrival.trial.state == "paused":
                self._paused.add(arrival)

    def promote(self, closing: bool = False) -> int | None:
        number = next_to_continue(self._ladder, self._paused, self._reduction, closing)
        if number is not None:
            self._paused.remove(number)
        return number

    def end(self, number: int) -> None:
        self._paused.remove(number)
        self._ladder.end(number)
