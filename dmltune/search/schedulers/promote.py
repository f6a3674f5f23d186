"""Asynchronous successive halving with pauses, for few workers: a rung's best trials are continued."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Annotated, Literal

from annotated_types import Ge, Interval

from dmltune.search.engine_trial import Decision, EngineTrial
from dmltune.search.rungs import Arrival, Entry, Ladder, halving_shares
from dmltune.search.schedulers import Budget


class Promote:
    """Pause at asha's rungs; continue a trial once it is in the best 1/reduction of its rung (Li et al.
    2020).

    In contrast to asha no trial is lost because it came early, and none goes on because few came before it.
    early: as for asha.
    """

    def __init__(
        self,
        reduction: Annotated[int, Ge(2)] = 3,
        rungs: Annotated[int, Interval(ge=1, le=10)] = 2,
        unit: Literal["steps", "projections"] = "steps",
        early: bool = True,
    ) -> None:
        self.reduction, self.rungs, self.unit, self.early = reduction, rungs, unit, early

    def build(self, budget: Budget) -> PromotionRule:
        ladder = Ladder(budget, halving_shares(self.reduction, self.rungs), self.unit, self.early)
        return PromotionRule(ladder, self.reduction)


class PausedTrials:
    """Paused trials by rung, the best of each first."""

    def __init__(self) -> None:
        self._by_rung: dict[int, list[Entry]] = {}
        self._place: dict[int, tuple[int, Entry]] = {}

    def add(self, arrival: Arrival) -> None:
        entry = (-arrival.score, arrival.trial.number)
        insort(self._by_rung.setdefault(arrival.rung, []), entry)
        self._place[arrival.trial.number] = (arrival.rung, entry)

    def remove(self, number: int) -> None:
        """Forget the trial; one that is not paused is ignored."""
        if number in self._place:
            rung, entry = self._place.pop(number)
            entries = self._by_rung[rung]
            del entries[bisect_left(entries, entry)]

    def best(self, rung: int) -> Entry | None:
        entries = self._by_rung.get(rung)
        return entries[0] if entries else None


class PromotionRule:
    """Of N trials at a rung the best ⌊N/reduction⌋ go on, the best paused one of the highest rung first.

    At the end of the search it is one of each rung at least, so that a trial comes to its end.
    """

    def __init__(self, ladder: Ladder, reduction: int) -> None:
        self._ladder, self._reduction, self._paused = ladder, reduction, PausedTrials()

    def report(self, trial: EngineTrial) -> Decision:
        for arrival in self._ladder.report(trial):
            own = arrival.trial.number == trial.number and not trial.protected
            if own and self._ladder.decides(arrival):
                self._paused.add(arrival)
                if self._next() != trial.number:
                    return "pause"
                self._paused.remove(trial.number)
        return "continue"

    def restore(self, trial: EngineTrial) -> None:
        for arrival in self._ladder.restore(trial):
            if arrival.trial.state == "paused":
                self._paused.add(arrival)

    def promote(self, closing: bool = False) -> int | None:
        number = self._next(closing)
        if number is not None:
            self._paused.remove(number)
        return number

    def end(self, number: int) -> None:
        self._paused.remove(number)
        self._ladder.end(number)

    def _next(self, closing: bool = False) -> int | None:
        return next_to_continue(self._ladder, self._paused, self._reduction, closing)


def next_to_continue(ladder: Ladder, paused: PausedTrials, reduction: int, closing: bool) -> int | None:
    """Return the best paused trial of the highest rung that is among its best ⌊N/reduction⌋.

    At the end of the search it is one of each rung at least.
    """
    for rung in range(len(ladder.entries) - 1, -1, -1):
        best, entries = paused.best(rung), ladder.entries[rung]
        keep = max(len(entries) // ladder.reduction(rung, reduction), closing)
        if best is not None and bisect_left(entries, best) < keep:
            return best[1]
    return None
