"""The median rule: a trial below the median of the others at the same step is stopped."""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import Annotated

from annotated_types import Ge, Interval

from dmltune.search.engine_trial import Decision, EngineTrial
from dmltune.search.schedulers import Budget


class Median:
    """Stop when the best score so far is below the median of the running means (Golovin et al. 2017).

    The running mean of a trial at a step is that of its scores up to there. Judged at every validation from
    `grace` · max_steps on, against at least `others` other trials that have reached the step.
    """

    def __init__(
        self,
        grace: Annotated[float, Interval(ge=0, lt=1)] = 0.2,
        others: Annotated[int, Ge(1)] = 5,
    ) -> None:
        self.grace, self.others = grace, others

    def build(self, budget: Budget) -> MedianRule:
        return MedianRule(self.grace * budget.max_steps, self.others)


class MedianRule:
    """The untrained network's score (step 0) does not count."""

    def __init__(self, first_step: float, others: int) -> None:
        self._first_step, self._others = first_step, others
        self._means: dict[int, list[float]] = {}  # step → ascending running means, one for each trial

    def report(self, trial: EngineTrial) -> Decision:
        scores = trial.scores[bisect_right(trial.steps, 0) :]
        if trial.role == "repeat" or not scores:
            return "continue"
        step = trial.steps[-1]
        means = self._means.setdefault(step, [])
        judged = not trial.protected and step >= self._first_step and len(means) >= self._others
        stops = judged and max(scores) < _median(means)
        insort(means, sum(scores) / len(scores))
        return "stop" if stops else "continue"

    def restore(self, trial: EngineTrial) -> None:
        first = bisect_right(trial.steps, 0)
        if trial.role != "repeat":
            for end in range(first + 1, len(trial.steps) + 1):
                means = self._means.setdefault(trial.steps[end - 1], [])
                insort(means, sum(trial.scores[first:end]) / (end - first))

    def promote(self, closing: bool = False) -> int | None:
        return None

    def end(self, number: int) -> None:
        return None


def _median(ascending: list[float]) -> float:
    middle = len(ascending) // 2
    return ascending[middle] if len(ascending) % 2 else (ascending[middle - 1] + ascending[middle]) / 2
