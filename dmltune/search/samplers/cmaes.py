"""Covariance matrix adaptation: for numeric parameters and some hundred trials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge

from dmltune.search.samplers import startup_trials

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler


class Cmaes:
    """CMA-ES (Hansen 2016) over the numbers; choices are proposed by TPE."""

    def __init__(self, startup_trials: Annotated[int, Ge(1)] | None = None) -> None:
        self.startup_trials = startup_trials

    def build(self, trials: int, seed: int) -> BaseSampler:
        from dmltune.search.cma_sampler import CmaSampler

        return CmaSampler(startup_trials(self.startup_trials, trials), seed)
