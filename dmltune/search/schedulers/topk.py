"""One rung for all: train every trial for a short time, then the best K to the end."""

from __future__ import annotations

from bisect import bisect_left
from fractions import Fraction
from typing import Annotated

from annotated_types import Ge, Interval

from dmltune.search.engine_trial import Decision, EngineTrial
from dmltune.search.rungs import Ladder
from dmltune.search.schedulers import Budget
from dmltune.search.schedulers.promote import PausedTrials


class Topk:
    """Pause all trials at `rung` · max_steps; when no more are started, continue the best `keep`.

    A simple comparison that elaborate rules often do not beat (Egele et al. 2023, "Is one epoch all you
    need for multi-fidelity hyperparameter optimization?").
    """

    def __init__(
        self, keep: Annotated[int, Ge(1)] = 4, rung: Annotated[float, Interval(gt=0, lt=1)] = 0.1
    ) -> None:
        self.keep, self.rung = keep, rung

    def build(self, budget: Budget) -> BestRule:
        return BestRule(Ladder(budget, (Fraction(str(self.rung)),)), self.keep)


class BestRule:
    """Protected trials count among the best, so that at most `keep` others are continued."""

    def __init__(self, ladder: Ladder, keep: int) -> None:
        self._ladder, self._keep, self._paused = ladder, keep, PausedTrials()

    def report(self, trial: EngineTrial) -> Decision:
        for arrival in self._ladder.report(trial):
            if not trial.protected:
                self._paused.add(arrival)
                return "pause"
        return "continue"

    def restore(self, trial: EngineTrial) -> None:
        for arrival in self._ladder.restore(trial):
            if trial.state == "paused":
                self._paused.add(arrival)

    def promote(self, closing: bool = False) -> int | None:
        best = self._paused.best(0)
        if not closing or best is None or bisect_left(self._ladder.entries[0], best) >= self._keep:
            return None
        self._paused.remove(best[1])
        return best[1]

    def end(self, number: int) -> None:
        self._paused.remove(number)
