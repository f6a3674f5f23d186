"""CMA-ES as a sampler of Optuna whose state is plain numbers.

Optuna's CmaEsSampler pickles its optimiser into the study; nothing that was stored is unpickled here. The
state after each generation (mean, step size, covariance and the two paths) is an attribute of the study, and
each trial has the number of its generation. A generation ends when as many of its trials have a value as the
population has; what ends later counts no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from cmaes import CMA
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseSampler, TPESampler
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial

from dmltune.search.gp_sampler import finished, seen_space
from dmltune.search.sobol_sampler import SobolSampler
from dmltune.search.unit_cube import UnitCube

Floats = NDArray[np.float64]

STATE_KEY = "dmltune:cma_state"
GENERATION_KEY = "dmltune:cma_generation"
ARRAYS = {"covariance": "_C", "step_path": "_p_sigma", "path": "_pc"}
STEP = 0.2  # initial, of the unit cube


class CmaSampler(BaseSampler):
    """CMA-ES from the best of the first trials; choices are those of TPE."""

    def __init__(self, startup: int, seed: int) -> None:
        self._startup = startup
        self._seed = seed
        self._sobol = SobolSampler(seed)
        self._tpe = TPESampler(seed=seed, n_startup_trials=startup)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        self._sobol.before_trial(study, trial)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        trials = study.get_trials(deepcopy=False)
        if len(finished(trials)) < self._startup:
            return {}
        space = seen_space(trials).items()
        numbers = {name: each for name, each in space if not isinstance(each, CategoricalDistribution)}
        return numbers if len(numbers) > 1 else {}  # there is no covariance of one number

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        if not search_space:
            return {}
        cube = UnitCube(search_space)
        storage, study_id = study._storage, study._study_id
        sign = -1.0 if study.direction == StudyDirection.MAXIMIZE else 1.0
        done = finished(study.get_trials(deepcopy=False))
        stored = storage.get_study_system_attrs(study_id).get(STATE_KEY)
        best = min(done, key=lambda each: sign * each.values[0])
        optimiser = restored(stored, cube.dimension) or new_optimiser(cube.encode(best.params))
        told = [each for each in done if each.system_attrs.get(GENERATION_KEY) == optimiser.generation]
        if len(told) >= optimiser.population_size:
            _tell(optimiser, cube, told[: optimiser.population_size], sign)
        storage.set_study_system_attr(study_id, STATE_KEY, plain(optimiser))
        storage.set_trial_system_attr(trial._trial_id, GENERATION_KEY, optimiser.generation)
        optimiser.reseed_rng(int(np.random.default_rng([self._seed, trial.number]).integers(2**31)))
        return cube.decode(optimiser.ask())

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        started = len(finished(study.get_trials(deepcopy=False))) >= self._startup
        sampler = self._tpe if started else self._sobol
        return sampler.sample_independent(study, trial, param_name, param_distribution)


def new_optimiser(mean_D: Floats) -> CMA:
    """Return an optimiser on the unit cube around a point."""
    bounds = np.tile([0.0, 1.0], (len(mean_D), 1))
    return CMA(mean=mean_D.copy(), sigma=STEP, bounds=bounds, seed=0)


def plain(optimiser: CMA) -> dict[str, Any]:
    """Return the state of the optimiser as numbers that JSON can hold."""
    arrays = {name: getattr(optimiser, attribute).tolist() for name, attribute in ARRAYS.items()}
    return {
        **arrays,
        "mean": optimiser.mean.tolist(),
        "step": float(optimiser._sigma),
        "generation": int(optimiser.generation),
    }


def restored(state: dict[str, Any] | None, dimension: int) -> CMA | None:
    """Return the optimiser with this state; None if there is none for a space of this dimension."""
    if state is None or len(state["mean"]) != dimension:
        return None
    optimiser = new_optimiser(np.clip(np.array(state["mean"], dtype=float), 0.0, 1.0))
    for name, attribute in ARRAYS.items():
        setattr(optimiser, attribute, np.array(state[name], dtype=float))
    optimiser._sigma, optimiser._g = float(state["step"]), int(state["generation"])
    optimiser._B = optimiser._D = None  # of the covariance, computed when needed
    return optimiser


def _tell(optimiser: CMA, cube: UnitCube, trials: Sequence[FrozenTrial], sign: float) -> None:
    optimiser.tell([(cube.encode(trial.params), sign * trial.values[0]) for trial in trials])
