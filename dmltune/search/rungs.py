"""Rungs: positions in a training at which the trials that reached them are compared.

A trial enters a rung with its best score so far, at the first validation at or after the rung; the untrained
network's (step 0) does not count. So what the rungs hold follows from the validations of the trials alone,
not from the order of reports: a restored ladder equals the one that saw the trials live.

Unit "projections" (CCP): after every projection new proxies are chosen and the score dips. A trial enters
rung k at the first validation at which max(1, ⌊share_k · P⌋) of its projections have ended, where P is the
number of the finished reference point (trial 0 in a search without one). Until P is known there are no
rungs; if it is 0 they are in steps. A trial without any projection is entered at the step at which the
reference point reached the rung: before a first projection has ended there was no dip.

An early rung (in steps alone) lies before all others, at 1/9 of the first of them or at the first validation.
It decides only once it has proved itself: the first trials pass it, and the ranks that they have there must
be much like those at the next rung. On TaskSet, where they are (.9), two to four times as many configurations
are tried in the same time; on the glyphs of benchmarks/data (.36 with the next validation, −.2 with the
last) nothing is stopped by it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from dmltune.search.engine_trial import EngineTrial
from dmltune.search.rank_correlation import spearman
from dmltune.search.schedulers import Budget

Unit = Literal["steps", "projections"]
EARLIER = 9  # times as early as the first rung is the early one, where validations allow it
FIRST = 16  # trials that pass the early rung; those of them that reach the next one are
ENOUGH = 10  # at least so many
TRUSTED = 0.75  # Spearman's correlation of their scores at both rungs
Entry = tuple[float, int]
"""(−score, number): in ascending order the best trial is first, of equal ones the oldest."""


@dataclass(frozen=True)
class Rung:
    """`projections` is 0 for a rung in steps."""

    step: int
    projections: int = 0

    def reached_at(self, trial: EngineTrial) -> int | None:
        """Return the index of the first validation of the trial at or after the rung, or None."""
        by_step = bisect_left(trial.steps, self.step)
        if self.projections == 0:
            return by_step if by_step < len(trial.steps) else None
        if by_step < bisect_right(trial.projections, 0):
            return by_step
        by_projections = bisect_left(trial.projections, self.projections)
        return by_projections if by_projections < len(trial.projections) else None


@dataclass(frozen=True)
class Arrival:
    """A trial, the highest rung that it has newly reached, and its score there."""

    trial: EngineTrial
    rung: int
    score: float


def halving_shares(reduction: int, rungs: int) -> tuple[Fraction, ...]:
    """Return 1/reduction^k for k = rungs … 1."""
    return tuple(Fraction(1, reduction**k) for k in range(rungs, 0, -1))


def is_yardstick(trial: EngineTrial) -> bool:
    """Whether the trial's number of projections is what the rungs are shares of."""
    return trial.role == "reference" or trial.number == 0


class Ladder:
    """The rungs at these shares of a training, in ascending order, and the trials at each of them.

    Repetitions do not count, because their configuration has been counted already.
    """

    def __init__(
        self, budget: Budget, shares: Sequence[Fraction], unit: Unit = "steps", early: bool = False
    ) -> None:
        self._budget, self._shares = budget, shares
        self.rungs: tuple[Rung, ...] | None = self._in_steps() if unit == "steps" else None
        self._early = self._early_rung() if early and self.rungs else None
        if self._early:
            self.rungs = (self._early, *(self.rungs or ()))
        self._both: tuple[dict[int, float], dict[int, float]] = {}, {}  # first trials, at the two first rungs
        self.entries: list[list[Entry]] = [[] for _ in self.rungs or ()]
        self._waiting: dict[int, EngineTrial] = {}  # seen before the rungs were known

    def report(self, trial: EngineTrial) -> list[Arrival]:
        """Enter the trial's last validation; return who newly reached a rung and is not at its end."""
        arrivals = self._enter(trial, since=len(trial.steps) - 1)
        return [each for each in arrivals if each.trial.steps[-1] < self._budget.max_steps]

    def restore(self, trial: EngineTrial) -> list[Arrival]:
        """Enter all validations of a trial of an earlier session."""
        ended = trial.state in ("complete", "failed", "pruned")
        return self._enter(trial, since=0) + (self.end(trial.number) if ended else [])

    def end(self, number: int) -> list[Arrival]:
        """Return who newly reached a rung: the end of the reference point may make the rungs known."""
        trial = self._waiting.get(number)
        return self._settle(trial) if trial is not None and is_yardstick(trial) else []

    def decides(self, arrival: Arrival) -> bool:
        """Whether the rung stops trials: an early one only later trials, and where it tells the order."""
        if not self._early or arrival.rung:
            return True
        first, second = self._both
        pairs = [(score, second[number]) for number, score in first.items() if number in second]
        if arrival.trial.number < FIRST or len(pairs) < ENOUGH:
            return False
        return spearman([a for a, _ in pairs], [b for _, b in pairs]) >= TRUSTED

    def reduction(self, rung: int, usual: int) -> int:
        """Return of how many trials one goes on: at an early rung as many as the next is times as late."""
        if not self._early or rung or not self.rungs:
            return usual
        return max(usual, round(self._validated(self.rungs[1].step) / self._validated(self._early.step)))

    def ahead_of(self, arrival: Arrival) -> int:
        """Return how many trials have reached the rung with a higher score, or earlier with the same one.

        So a point that adds nothing to one of before does not go on beside it.
        """
        return bisect_left(self.entries[arrival.rung], (-arrival.score, arrival.trial.number))

    def _enter(self, trial: EngineTrial, since: int) -> list[Arrival]:
        if trial.role == "repeat" or not trial.steps:
            return []
        if self.rungs is None:
            self._waiting[trial.number] = trial
            at_end = is_yardstick(trial) and trial.steps[-1] >= self._budget.max_steps
            return self._settle(trial) if at_end else []
        arrivals = []
        for index, rung in enumerate(self.rungs):
            at = rung.reached_at(trial)
            if at is not None and at >= since:
                score = max(trial.scores[bisect_right(trial.steps, 0) : at + 1])
                insort(self.entries[index], (-score, trial.number))
                if index < 2 and trial.number < FIRST:
                    self._both[index][trial.number] = score
                arrivals = [Arrival(trial, index, score)]
        return arrivals

    def _settle(self, reference: EngineTrial) -> list[Arrival]:
        """Place the rungs by the ended reference point; enter all trials seen so far."""
        finished = reference.state == "complete" or reference.steps[-1] >= self._budget.max_steps
        total = reference.projections[-1] if finished else 0
        self.rungs = self._in_projections(reference, total) if total else self._in_steps()
        self.entries = [[] for _ in self.rungs]
        waiting, self._waiting = self._waiting, {}
        return [arrival for trial in waiting.values() for arrival in self._enter(trial, since=0)]

    def _in_steps(self) -> tuple[Rung, ...]:
        last = self._budget.max_steps
        steps = {max(self._budget.validate_every, int(last * share)) for share in self._shares}
        return tuple(Rung(step) for step in sorted(steps) if step < last)

    def _early_rung(self) -> Rung | None:
        """Return a rung before the first one; None where that is at the first validation already."""
        first = self.rungs[0].step if self.rungs else 0
        rung = Rung(max(self._budget.validate_every, first // EARLIER))
        return rung if self._validated(rung.step) < self._validated(first) else None

    def _validated(self, step: int) -> int:
        """Return the step of the first validation at or after `step`."""
        every = self._budget.validate_every
        return -(-step // every) * every

    def _in_projections(self, reference: EngineTrial, total: int) -> tuple[Rung, ...]:
        counts = sorted({max(1, int(total * share)) for share in self._shares})
        steps = [reference.steps[bisect_left(reference.projections, count)] for count in counts]
        pairs = zip(steps, counts, strict=True)
        return tuple(Rung(step, count) for step, count in pairs if step < reference.steps[-1])
