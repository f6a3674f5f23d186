"""Independent random points: the baseline of samplers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler


class Random:
    """Independent random points in the bounds (in their logarithm with `log`)."""

    def build(self, trials: int, seed: int) -> BaseSampler:
        import optuna

        return optuna.samplers.RandomSampler(seed=seed)
