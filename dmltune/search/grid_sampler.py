"""A grid as a sampler of Optuna, without a need to know the space before.

Point n of the grid has the digits of n as levels, of which the first parameter has the last: a parameter with
L levels takes n mod L, and the next parameter gets n div L. Conditions only change which parameters follow.
The position is an attribute of the study, so that a resumed search continues. After the last point the digits
repeat; repeated points are refused around the sampler.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial

from dmltune.search.unit_cube import Axis

NEXT_KEY = "dmltune:grid_next"


class GridSampler(BaseSampler):
    """All choices and `levels` evenly spaced values of each number, its bounds included."""

    def __init__(self, levels: int) -> None:
        self._levels = levels
        self._rest = 0

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        attributes = study._storage.get_study_system_attrs(study._study_id)
        self._rest = int(attributes.get(NEXT_KEY, 0))
        study._storage.set_study_system_attr(study._study_id, NEXT_KEY, self._rest + 1)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return {}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return {}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        values = grid_values(param_distribution, self._levels)
        self._rest, digit = divmod(self._rest, len(values))
        return values[digit]


def grid_values(distribution: BaseDistribution, levels: int) -> list[Any]:
    """Return all values of a choice or of a small range, else evenly spaced ones in ascending order."""
    axis = Axis("", distribution, 0)
    if axis.choices:
        return list(axis.choices)
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    if axis.levels is not None and axis.levels <= levels:
        step = distribution.step or 0
        values = [distribution.low + index * step for index in range(axis.levels)]
        return [axis.decode(axis.encode(value)) for value in values]
    low, high = (axis.encode(value)[0] for value in (distribution.low, distribution.high))
    values = [axis.decode(np.array([at])) for at in np.linspace(low, high, levels)]
    return sorted({float(f"{value:.12g}") if axis.levels is None else value for value in values})
