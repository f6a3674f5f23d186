"""The sampler by the space: a Gaussian process where it can model it, else TPE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge

from dmltune.search.samplers import startup_trials

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler


class Auto:
    """`gp` for spaces without conditions and with few choices, `tpe` for all others."""

    def __init__(self, startup_trials: Annotated[int, Ge(1)] | None = None) -> None:
        self.startup_trials = startup_trials

    def build(self, trials: int, seed: int) -> BaseSampler:
        from dmltune.search.auto_sampler import AutoSampler
        from dmltune.search.samplers.tpe import Tpe

        tpe = Tpe(self.startup_trials).build(trials, seed)
        return AutoSampler(tpe, startup_trials(self.startup_trials, trials), seed)
