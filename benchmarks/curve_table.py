"""A table of trainings that are finished: a search reads from it instead of training.

Regret of a configuration with true final score y, where b is the best and m the median of the table:
`(b − y) / (b − m)`, so 0 is the best configuration and 1 the median one. It is cut off at 2, which is also
the regret of a configuration that diverged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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

    @property
    def regrets_K(self) -> Floats:
        return normalised_regrets(self.score_KRT[:, :, -1])

    def curve(self, values: Mapping[str, Any], seed: int) -> tuple[list[float], float]:
        """Return what `dmltune.simulate` wants of a function: the scores, and seconds per step."""
        return self.score_KRT[self.row_of(values), seed % self.seeds].tolist(), 1.0


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
