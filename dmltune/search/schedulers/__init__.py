"""Schedulers, found by file name: `schedulers/asha.py` holds the class `Asha`, whose signature is its schema.

`build(schedule, history)` returns Ray Tune's scheduler; Ray is imported there. Results carry `step`, `score`,
`protected` (the reference point, its repetitions and the baseline are never stopped, because everything is
compared with them) and `ranked` (repetitions do not count at a rung: their point is there already). A
scheduler may pause trials: a paused one leaves its worker group and is continued from its checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial
    from ray.tune.schedulers import TrialScheduler

PACKAGE = "dmltune.search.schedulers"


@dataclass(frozen=True)
class Budget:
    """The length of a trial and how often it is validated."""

    max_steps: int
    validate_every: int
    mode: Literal["max", "min"]


class Scheduler(Protocol):
    def build(self, budget: Budget, history: Sequence[FrozenTrial]) -> TrialScheduler:
        """Return Ray Tune's scheduler. `history` are the finished trials of earlier sessions."""


def load(name: str, **parameters: Any) -> Scheduler:
    """Return the scheduler with this name; an unknown name or parameter is a UserError."""
    from dmltune.core import components

    scheduler: Scheduler = components.build(PACKAGE, name, {}, parameters)
    return scheduler
