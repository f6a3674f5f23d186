"""The best scores of many trials by the step of a validation, as one matrix."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dmltune.search.engine_trial import EngineTrial

Floats = NDArray[np.float64]


class Validations:
    """Rows are trials and columns are steps. The row of a trial that has not gone on is not made again."""

    def __init__(self) -> None:
        self._steps: list[int] = []
        self._rows: dict[int, tuple[int, bool, Floats]] = {}  # validations, complete, row

    def of(self, trials: Sequence[EngineTrial]) -> tuple[list[int], Floats]:
        """Return the steps after 0 at which any of the trials was validated, and the best scores up to each.

        NaN before the first finite score and after the end of a trial; a complete one keeps its score in the
        steps that it did not need.
        """
        steps = sorted(step for step in set().union(*(trial.steps for trial in trials)) if step > 0)
        if steps != self._steps or len(self._rows) > 2 * len(trials):
            self._steps, self._rows = steps, {}
        return steps, np.array([self._row(trial) for trial in trials]).reshape(len(trials), len(steps))

    def _row(self, trial: EngineTrial) -> Floats:
        complete = trial.state == "complete"
        known = self._rows.get(trial.number)
        if known is None or known[0] != len(trial.steps) or known[1] != complete:
            known = len(trial.steps), complete, self._made(trial, complete)
            self._rows[trial.number] = known
        return known[2]

    def _made(self, trial: EngineTrial, complete: bool) -> Floats:
        row, best, position = np.full(len(self._steps), math.nan), -math.inf, 0
        end = math.inf if complete else trial.steps[-1]
        for column, step in enumerate(self._steps):
            if step > end:
                break
            while position < len(trial.steps) and trial.steps[position] <= step:
                if math.isfinite(trial.scores[position]):
                    best = max(best, trial.scores[position])
                position += 1
            if best > -math.inf:
                row[column] = best
        return row
