"""A table of trainings that are finished: a search reads from it instead of training.

Regret of a configuration with true final score y, where b is the best and m the median of the table:
`(b − y) / (b − m)`, so 0 is the best configuration and 1 the median one. It is cut off at 2, which is also
the regret of a configuration that diverged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]

WORST_REGRET = 2.0


@dataclass(frozen=True)
class CurveTable:
    """`score_KRT`: the best score so far of configuration k with seed r after step t; higher is better.

    It is that of the model which a trial leaves behind. NaN: the training has diverged.
    `row_of` returns the configuration that stands for these values. One step takes one second.
    """

    name: str
    search: Mapping[str, Any]  # as in YAML
    score_KRT: Floats
    row_of: Callable[[Mapping[str, Any]], int]

    @property
    def max_steps(self) -> int:
        return self.score_KRT.shape[2]

    @property
    def seeds(self) -> int:
        return self.score_KRT.shape[1]

    @cached_property
    def regrets_K(self) -> Floats:
        return normalised_regrets(self.score_KRT[:, :, -1])

    def regret(self, values: Mapping[str, Any]) -> float:
        """Return the regret of these values."""
        return float(self.regrets_K[self.row_of(values)])

    def curve(self, values: Mapping[str, Any], seed: int) -> tuple[list[float], float]:
        """Return what `dmltune.simulate` wants of a function: the scores, and seconds per step."""
        return self.score_KRT[self.row_of(values), seed % self.seeds].tolist(), 1.0


@dataclass(frozen=True)
class SmoothTable(CurveTable):
    """A table whose curves change gradually between its configurations, each with one seed.

    `weights_of` returns how much each configuration says of these values (their sum is 1). At every step the
    ranks of all configurations are averaged with these weights, and the average is put where it lies among
    those of the configurations themselves: the score is the table's score of that rank. So the scores of
    every step keep their distribution, the ranks of neighbours agree, and a curve may cross another.
    """

    weights_of: Callable[[Mapping[str, Any]], Floats]
    rank_KT: Floats  # of the recorded scores, from 0 to 1; diverged ones are the lowest
    smooth_KT: Floats  # the averaged ranks at the configurations themselves, each column in ascending order
    sorted_KT: Floats  # the recorded scores, each column in ascending order, diverged ones first

    @property
    def seeds(self) -> int:
        return 1

    @cached_property
    def regrets_K(self) -> Floats:
        final_K = self.sorted_KT[:, -1]  # the distribution is that of the table
        return normalised_regrets(np.where(np.isfinite(final_K), final_K, np.nan)[:, None])

    def regret(self, values: Mapping[str, Any]) -> float:
        final = self.curve(values, 0)[0][-1]
        truth_K = self.sorted_KT[:, -1]
        truth_K = truth_K[np.isfinite(truth_K)]
        if not math.isfinite(final):
            return WORST_REGRET
        best, median = float(truth_K.max()), float(np.median(truth_K))
        return min(WORST_REGRET, (best - final) / (best - median))

    def curve(self, values: Mapping[str, Any], seed: int) -> tuple[list[float], float]:
        average_T = self.weights_of(values) @ self.rank_KT
        places = np.arange(len(self.smooth_KT))
        scores = []
        for average, smooth_K, sorted_K in zip(average_T, self.smooth_KT.T, self.sorted_KT.T, strict=True):
            place = float(np.interp(average, smooth_K, places))
            low = int(place)
            high = min(low + 1, len(places) - 1)
            step = place - low
            diverged = not math.isfinite(sorted_K[low])
            scores.append(math.nan if diverged else (1 - step) * sorted_K[low] + step * sorted_K[high])
        return best_so_far(np.array(scores)[None, None])[0, 0].tolist(), 1.0

    @classmethod
    def of(
        cls,
        table: CurveTable,
        weights_of: Callable[[Mapping[str, Any]], Floats],
        weight_KK: Floats,
        name: str,
    ) -> SmoothTable:
        """Return the smooth form of a table; `weight_KK` are the weights at its own configurations."""
        score_KT = np.where(np.isnan(table.score_KRT[:, 0]), -math.inf, table.score_KRT[:, 0])
        rank_KT = stats.rankdata(score_KT, axis=0) / len(score_KT)
        smooth_KT = np.sort(weight_KK @ rank_KT, axis=0)
        return cls(
            name,
            table.search,
            table.score_KRT,
            table.row_of,
            weights_of,
            rank_KT,
            smooth_KT,
            np.sort(score_KT, axis=0),
        )


def normalised_regrets(final_KR: Floats) -> Floats:
    """Return the regret of the mean over seeds of each configuration."""
    truth_K = final_KR.mean(axis=1)  # NaN when it diverged with one of the seeds
    best, median = float(np.nanmax(truth_K)), float(np.nanmedian(truth_K))
    regret_K = (best - truth_K) / (best - median)
    return np.where(np.isnan(regret_K), WORST_REGRET, np.minimum(regret_K, WORST_REGRET))


def best_so_far(score_KRT: Floats) -> Floats:
    """Return the running maximum over steps; NaN from the first NaN on."""
    diverged = np.maximum.accumulate(np.isnan(score_KRT), axis=2)
    filled = np.maximum.accumulate(np.nan_to_num(score_KRT, nan=-math.inf), axis=2)
    return np.where(diverged, math.nan, filled)
