"""No early stopping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dmltune.search.schedulers import Budget

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial
    from ray.tune.schedulers import TrialScheduler


class None_:
    """Every trial runs to its end."""

    def build(self, budget: Budget, history: Sequence[FrozenTrial]) -> TrialScheduler:
        from ray.tune.schedulers import FIFOScheduler

        return FIFOScheduler()  # type: ignore[no-untyped-call]
