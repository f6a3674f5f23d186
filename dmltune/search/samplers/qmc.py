"""Scrambled Sobol points: they cover the space more evenly than random ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler


class Qmc:
    """Points of one scrambled Sobol sequence (in the logarithm with `log`)."""

    def build(self, trials: int, seed: int) -> BaseSampler:
        from dmltune.search.sobol_sampler import SobolSampler

        return SobolSampler(seed)
