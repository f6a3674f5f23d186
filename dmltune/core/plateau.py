"""Lower the learning rates when the validation score no longer improves."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Plateau:
    """After `patience` validations in a row without improvement the learning rates are reduced once more.

    The count starts again with every improvement and every reduction. Without a patience nothing happens.
    The score is the same on all ranks, so the state is too.
    """

    patience: int | None = None
    reductions: int = 0
    stale: int = 0  # validations since the last improvement or reduction

    def count_validation(self, improved: bool) -> None:
        self.stale = 0 if improved else self.stale + 1
        if self.patience is not None and self.stale >= self.patience:
            self.reductions, self.stale = self.reductions + 1, 0

    def state(self) -> list[int]:
        return [self.reductions, self.stale]

    def restore(self, state: list[int]) -> None:
        self.reductions, self.stale = state
