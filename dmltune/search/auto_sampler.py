"""A sampler of Optuna that is a Gaussian process or TPE, by what the trials show of the space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial

from dmltune.search.gp_sampler import GpSampler, seen_space
from dmltune.search.unit_cube import UnitCube

COLUMNS = 40  # of the unit cube: more are too many for a Gaussian process


def suits_gp(trials: Sequence[FrozenTrial]) -> bool:
    """Return whether all trials have the same parameters, and these have few columns.

    A trial with other parameters than the first shows that the space has conditions.
    """
    if any(trial.params.keys() != trials[0].params.keys() for trial in trials):
        return False
    return UnitCube(seen_space(trials)).dimension <= COLUMNS


class AutoSampler(BaseSampler):
    """Delegates each trial to the Gaussian process or to `tpe`."""

    def __init__(self, tpe: BaseSampler, startup: int, seed: int) -> None:
        self._gp = GpSampler(startup, seed)
        self._tpe = tpe
        self._current: BaseSampler = self._gp

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        others = [each for each in study.get_trials(deepcopy=False) if each.number != trial.number]
        self._current = self._gp if suits_gp(others) else self._tpe
        self._current.before_trial(study, trial)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self._current.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return self._current.sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return self._current.sample_independent(study, trial, param_name, param_distribution)
