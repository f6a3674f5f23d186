"""Tree-structured Parzen estimator: handles choices, conditions and stopped trials."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge

from dmltune.search.samplers import startup_trials

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler


class Tpe:
    """Multivariate TPE (Bergstra et al. 2011), with conditional parameters modelled by group."""

    def __init__(self, startup_trials: Annotated[int, Ge(1)] | None = None) -> None:
        self.startup_trials = startup_trials

    def build(self, trials: int, seed: int) -> BaseSampler:
        import optuna

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return optuna.samplers.TPESampler(
                seed=seed,
                multivariate=True,
                group=True,  # conditional parameters are modelled with the trials that have them
                constant_liar=True,
                n_startup_trials=startup_trials(self.startup_trials, trials),
            )
