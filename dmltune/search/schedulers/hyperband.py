"""Hyperband: brackets of successive halving that begin to stop trials at different rungs."""

from __future__ import annotations

from typing import Annotated, Literal

from annotated_types import Ge, Interval

from dmltune.search.engine_trial import Decision, EngineTrial
from dmltune.search.rungs import halving_shares, is_yardstick
from dmltune.search.schedulers import Budget
from dmltune.search.schedulers.asha import HalvingRule


class Hyperband:
    """Bracket s = rungs … 0 has the last s rungs of asha and a share of the trials (Li et al. 2018).

    Of every n = Σ n_s trials in a row, n_s = ⌈(rungs + 1)/(s + 1) · reduction^s⌉ belong to bracket s.
    """

    def __init__(
        self,
        reduction: Annotated[int, Ge(2)] = 3,
        rungs: Annotated[int, Interval(ge=1, le=6)] = 2,
        unit: Literal["steps", "projections"] = "steps",
    ) -> None:
        self.reduction, self.rungs, self.unit = reduction, rungs, unit

    def build(self, budget: Budget) -> BracketRule:
        shares = halving_shares(self.reduction, self.rungs)
        brackets = [
            HalvingRule(budget, shares[self.rungs - s :], self.reduction, self.unit)
            for s in range(self.rungs, -1, -1)
        ]
        return BracketRule(brackets, bracket_order(self.reduction, self.rungs))


def bracket_order(reduction: int, rungs: int) -> list[int]:
    """Return the place (0: most rungs) of the bracket of each trial of one round, evenly mixed."""
    sizes = [-(-(rungs + 1) * reduction**s // (s + 1)) for s in range(rungs, -1, -1)]
    turns = [((i + 0.5) / size, bracket) for bracket, size in enumerate(sizes) for i in range(size)]
    return [bracket for _, bracket in sorted(turns)]


class BracketRule:
    """A trial is compared with those of its bracket and with the protected ones, which are in all."""

    def __init__(self, brackets: list[HalvingRule], order: list[int]) -> None:
        self._brackets, self._order = brackets, order

    def report(self, trial: EngineTrial) -> Decision:
        decisions = {bracket: bracket.report(trial) for bracket in self._brackets_of(trial)}
        return decisions[self._own(trial)]

    def restore(self, trial: EngineTrial) -> None:
        for bracket in self._brackets_of(trial):
            bracket.restore(trial)

    def _own(self, trial: EngineTrial) -> HalvingRule:
        return self._brackets[self._order[trial.number % len(self._order)]]

    def _brackets_of(self, trial: EngineTrial) -> list[HalvingRule]:
        """Return where the trial counts: rungs in projections need the reference point in every bracket."""
        return self._brackets if trial.protected or is_yardstick(trial) else [self._own(trial)]

    def promote(self, closing: bool = False) -> int | None:
        waiting = (bracket.promote(closing) for bracket in self._brackets)
        return next((number for number in waiting if number is not None), None)

    def end(self, number: int) -> None:
        for bracket in self._brackets:
            bracket.end(number)
