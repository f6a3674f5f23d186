"""A grid: every choice, and evenly spaced levels of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler


class Grid:
    """All combinations of choices and of evenly spaced levels of numbers, in a fixed order; then random
    points."""

    def __init__(self, levels: Annotated[int, Ge(2)] = 4) -> None:
        self.levels = levels

    def build(self, trials: int, seed: int) -> BaseSampler:
        from dmltune.search.grid_sampler import GridSampler

        return GridSampler(self.levels)
