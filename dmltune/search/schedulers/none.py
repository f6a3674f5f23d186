"""No early stopping."""

from __future__ import annotations

from dmltune.search.engine_trial import Decision, EngineTrial
from dmltune.search.schedulers import Budget


class None_:
    """Every trial runs to its end."""

    def build(self, budget: Budget) -> ContinueRule:
        return ContinueRule()


class ContinueRule:
    def report(self, trial: EngineTrial) -> Decision:
        return "continue"

    def restore(self, trial: EngineTrial) -> None:
        return None

    def promote(self, closing: bool = False) -> int | None:
        return None

    def end(self, number: int) -> None:
        return None
