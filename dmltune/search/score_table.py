"""The scores of configurations on blocks; a block is a seed and a fold."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping

from dmltune.search.engine_trial import EngineTrial

_ROLES = ("reference", "search", "repeat", "baseline")


class ScoreTable:
    """Candidate × block → score. A candidate is the number of the first trial of a configuration.

    The baseline is in the table but is no candidate: it is compared with the winner and cannot win.
    """

    def __init__(self, baseline: int | None = None) -> None:
        self.baseline = baseline
        self._scores: dict[int, dict[Hashable, float]] = {}

    @classmethod
    def of(cls, trials: Iterable[EngineTrial]) -> ScoreTable:
        """Build the table of all complete trials; the baseline is that of the trial with this role."""
        table = cls()
        for trial in trials:
            if trial.role == "baseline" and table.baseline is None:
                table.baseline = trial.configuration
            if trial.role in _ROLES and trial.score is not None and math.isfinite(trial.score):
                table.add(trial.configuration, (trial.seed, trial.fold), trial.score)
        return table

    def add(self, candidate: int, block: Hashable, score: float) -> None:
        """Enter a score; a later score of the same candidate and block replaces the earlier one."""
        self._scores.setdefault(candidate, {})[block] = float(score)

    @property
    def candidates(self) -> list[int]:
        """All configurations but the baseline, in the order of their first scores."""
        return [candidate for candidate in self._scores if candidate != self.baseline]

    @property
    def rows(self) -> Mapping[int, Mapping[Hashable, float]]:
        """The scores of all configurations, with the baseline's."""
        return self._scores

    @property
    def blocks(self) -> list[Hashable]:
        """All blocks in the order of their first scores."""
        return list(dict.fromkeys(block for row in self._scores.values() for block in row))

    def scores(self, candidate: int) -> dict[Hashable, float]:
        """Return the scores of a configuration by block; the first score comes first."""
        return dict(self._scores.get(candidate, {}))

    def count(self, candidate: int) -> int:
        """Return how many scores a configuration has."""
        return len(self._scores.get(candidate, {}))

    def mean(self, candidate: int) -> float:
        """Return the plain mean of a configuration's scores."""
        row = self._scores[candidate]
        return sum(row.values()) / len(row)


def fold_of(block: Hashable) -> Hashable:
    """Return the fold of a block (seed, fold); a block of another shape has no fold."""
    return block[1] if isinstance(block, tuple) and len(block) == 2 else 0
