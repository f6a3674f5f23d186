"""A scrambled Sobol sequence as a sampler of Optuna, without a need to know the space before.

Each parameter has a coordinate, in the order in which the parameters appear in the study's trials, and each
proposal takes the next point of one sequence. Its seed and position are attributes of the study, so that a
resumed search continues the sequence. Points that were refused are passed over.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial

from dmltune.search.unit_cube import Axis

COORDINATES = 128  # of the sequence; further parameters are random
SEED_KEY = "dmltune:sobol_seed"
NEXT_KEY = "dmltune:sobol_next"


class SobolSampler(BaseSampler):
    """Take the next point of the study's sequence; `seed` is that of a new sequence."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._place: tuple[int, int] = (seed, 0)  # seed of the sequence, and the next point's index
        self._point: NDArray[np.float64] | None = None
        self._coordinates: dict[str, int] | None = None

    @property
    def index(self) -> int:
        """The place of the current trial in the sequence."""
        return self._place[1]

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Take the next point for this trial and count it; it is computed when it is asked for."""
        attributes = study._storage.get_study_system_attrs(study._study_id)
        seed = int(attributes.get(SEED_KEY, self._seed))
        index = int(attributes.get(NEXT_KEY, trial.number))
        self._place, self._point, self._coordinates = (seed, index), None, None
        study._storage.set_study_system_attr(study._study_id, SEED_KEY, seed)
        study._storage.set_study_system_attr(study._study_id, NEXT_KEY, index + 1)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return {}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return {}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        axis = Axis(param_name, param_distribution, 0)
        if self._coordinates is None:
            self._coordinates = _coordinates(study)
        coordinate = self._coordinates.setdefault(param_name, len(self._coordinates))
        if self._point is None:
            self._point = sobol_point(*self._place)
        if coordinate < COORDINATES:
            uniform = float(self._point[coordinate])
        else:
            uniform = float(np.random.default_rng([self._seed, trial.number, coordinate]).random())
        return axis.decode(axis.spread(np.array([uniform]))[0])


def sobol_point(seed: int, index: int) -> NDArray[np.float64]:
    """Return point `index` of the scrambled sequence with this seed."""
    from scipy.stats import qmc  # takes a second, and only a search needs it

    sequence = qmc.Sobol(COORDINATES, scramble=True, rng=np.random.default_rng(seed))
    if index:
        sequence.fast_forward(index)
    point: NDArray[np.float64] = sequence.random(1)[0]
    return point


def _coordinates(study: Study) -> dict[str, int]:
    """Return the place of each parameter in the order of their first appearance in all trials."""
    names: dict[str, int] = {}
    for trial in study.get_trials(deepcopy=False):
        for each in trial.params:
            names.setdefault(each, len(names))
    return names
