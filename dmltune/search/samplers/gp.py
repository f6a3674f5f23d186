"""Gaussian process: the most efficient for few numeric parameters. It does not read stopped trials."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge

from dmltune.search.samplers import startup_trials

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler


class Gp:
    """Gaussian process with expected improvement (Optuna's GPSampler)."""

    def __init__(self, startup_trials: Annotated[int, Ge(1)] | None = None) -> None:
        self.startup_trials = startup_trials

    def build(self, trials: int, seed: int) -> BaseSampler:
        import optuna

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return optuna.samplers.GPSampler(
                seed=seed, n_startup_trials=startup_trials(self.startup_trials, trials)
            )
