"""The scores of configurations on blocks; a block is a seed and a fold."""

from __future__ import annotations

import math
from collections import Counter
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
        self._place: dict[int, int] = {}  # of a configuration in the order of first scores
        self._used: Counter[Hashable] = Counter()
        self._met: dict[Hashable, tuple[int, int]] = {}  # where a block is first: configuration, score

    def take(self, trial: EngineTrial) -> bool:
        """Enter the score of a complete trial; False for one that has none yet, or none that is compared.

        The baseline is that of the first trial with this role.
        """
        if trial.role == "baseline" and self.baseline is None:
            self.baseline = trial.configuration
        score = trial.score if trial.role in _ROLES else None
        if score is None or not math.isfinite(score):
            return False
        self.add(trial.configuration, (trial.seed, trial.fold), score)
        return True

    @classmethod
    def of(cls, trials: Iterable[EngineTrial]) -> ScoreTable:
        """Build the table of all complete trials; the baseline is that of the trial with this role."""
        table = cls()
        for trial in trials:
            table.take(trial)
        return table

    def add(self, candidate: int, block: Hashable, score: float) -> None:
        """Enter a score; a later score of the same candidate and block replaces the earlier one."""
        row = self._scores.setdefault(candidate, {})
        if block not in row:
            self._used[block] += 1
            met = (self._place.setdefault(candidate, len(self._place)), len(row))
            self._met[block] = min(met, self._met.get(block, met))
        row[block] = float(score)

    @property
    def candidates(self) -> list[int]:
        """All configurations but the baseline, in the order of their first scores."""
        return [candidate for candidate in self._scores if candidate != self.baseline]

    @property
    def rows(self) -> Mapping[int, Mapping[Hashable, float]]:
        """The scores of all configurations, with the baseline's."""
        return self._scores

    @property
    def used(self) -> Mapping[Hashable, int]:
        """How many configurations have a score on each block."""
        return self._used

    @property
    def blocks(self) -> list[Hashable]:
        """All blocks: those of the first configuration, then what the second one has besides, and so on."""
        return sorted(self._used, key=self._met.__getitem__)

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
