"""Which trials are stopped early: asynchronous successive halving (ASHA), or none.

The reference and the baseline are never stopped, because everything is compared with them; their scores count
at the rungs all the same. A resumed search gives the rungs their history back from the study.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from optuna.trial import FrozenTrial
from ray.tune.schedulers import AsyncHyperBandScheduler, FIFOScheduler, TrialScheduler

from dmltune.experiment import Experiment

REDUCTION = 3  # at every rung a third goes on
RUNGS_BELOW_END = 2


class ProtectingAsha(AsyncHyperBandScheduler):
    """ASHA on `step`; a result that carries `protected` is recorded and goes on."""

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        decision = super().on_trial_result(tune_controller, trial, result)
        return str(TrialScheduler.CONTINUE if result.get("protected") else decision)

    def on_trial_error(self, tune_controller: Any, trial: Any) -> None:
        self._trial_info.pop(trial.trial_id, None)

    def remember(self, trials: Iterable[FrozenTrial]) -> None:
        """Fill the rungs with what earlier sessions of this search saw."""
        for known in trials:
            if not known.intermediate_values:
                continue
            ghost: Any = SimpleNamespace(trial_id=f"study-{known.number}")
            nobody: Any = None
            self.on_trial_add(nobody, ghost)
            for step, score in sorted(known.intermediate_values.items()):
                self.on_trial_result(nobody, ghost, {"step": step, "score": score})


def scheduler_for(experiment: Experiment, history: Iterable[FrozenTrial]) -> TrialScheduler:
    """The scheduler the experiment asks for, with the history of finished trials."""
    if experiment.scheduler.name == "fifo":
        return FIFOScheduler()  # type: ignore[no-untyped-call]
    last, every = experiment.max_steps, experiment.validate_every
    first = min(last, max(every, last // REDUCTION**RUNGS_BELOW_END))
    asha = ProtectingAsha(
        time_attr="step",
        metric="score",
        mode=experiment.objective.mode,
        max_t=last,
        grace_period=first,
        reduction_factor=REDUCTION,
        stop_last_trials=False,  # who reaches the end ends by itself
    )
    asha.remember(history)
    return asha
