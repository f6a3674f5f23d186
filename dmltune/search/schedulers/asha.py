"""Asynchronous successive halving: a trial that is not among the best of its rung is stopped."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge, Interval

from dmltune.search.schedulers import Budget

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial
    from ray.tune.schedulers import TrialScheduler


class Asha:
    """Stop at rungs max_steps/reduction^k, k = 1 … rungs: 1/reduction of the trials goes on (Li et al.
    2020)."""

    def __init__(
        self, reduction: Annotated[int, Ge(2)] = 3, rungs: Annotated[int, Interval(ge=1, le=10)] = 2
    ) -> None:
        self.reduction, self.rungs = reduction, rungs

    def build(self, budget: Budget, history: Sequence[FrozenTrial]) -> TrialScheduler:
        last = budget.max_steps
        first = min(last, max(budget.validate_every, last // self.reduction**self.rungs))
        asha = _protecting_asha()(
            time_attr="step",
            metric="score",
            mode=budget.mode,
            max_t=last,
            grace_period=first,
            reduction_factor=self.reduction,
            stop_last_trials=False,  # a trial ends by itself
        )
        for trial in history:
            _fill_rungs(asha, trial)
        scheduler: TrialScheduler = asha
        return scheduler


def _protecting_asha() -> Any:
    from ray.tune.schedulers import AsyncHyperBandScheduler, TrialScheduler

    class ProtectingAsha(AsyncHyperBandScheduler):
        """ASHA on `step`; `protected` results count at their rung and go on, unranked ones only go on."""

        def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
            if not result.get("ranked", True):
                return str(TrialScheduler.CONTINUE)
            decision = super().on_trial_result(tune_controller, trial, result)
            return str(TrialScheduler.CONTINUE if result.get("protected") else decision)

        def on_trial_complete(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> None:
            if result.get("ranked", True):
                super().on_trial_complete(tune_controller, trial, result)
            self._trial_info.pop(trial.trial_id, None)

        def on_trial_error(self, tune_controller: Any, trial: Any) -> None:
            self._trial_info.pop(trial.trial_id, None)

    return ProtectingAsha


def _fill_rungs(asha: Any, trial: FrozenTrial) -> None:
    """Enter what an earlier session saw of this trial."""
    if not trial.intermediate_values:
        return
    ghost = SimpleNamespace(trial_id=f"study-{trial.number}")
    asha.on_trial_add(None, ghost)
    for step, score in sorted(trial.intermediate_values.items()):
        asha.on_trial_result(None, ghost, {"step": step, "score": score})
