"""Gaussian process: the most efficient for few numeric parameters; it learns from stopped trials too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge

from dmltune.search.samplers import startup_trials

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler


class Gp:
    """Gaussian process with expected improvement; it knows how certain each score is."""

    def __init__(self, startup_trials: Annotated[int, Ge(1)] | None = None) -> None:
        self.startup_trials = startup_trials

    def build(self, trials: int, seed: int) -> BaseSampler:
        from dmltune.search.gp_sampler import GpSampler

        return GpSampler(startup_trials(self.startup_trials, trials), seed)
