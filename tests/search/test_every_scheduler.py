"""What every scheduler keeps (a new file is found here), and the rungs of ASHA."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import optuna
import pytest
from optuna.trial import FrozenTrial, TrialState, create_trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler

from dmltune.core import components
from dmltune.errors import UserError
from dmltune.search import schedulers
from dmltune.search.schedulers import Budget

CONTROLLER: Any = None
BUDGET = Budget(max_steps=600, validate_every=100, mode="max")


def history(*curves: dict[int, float]) -> list[FrozenTrial]:
    study = optuna.create_study(direction="maximize")
    study.add_trials([create_trial(state=TrialState.PRUNED, intermediate_values=curve) for curve in curves])
    return study.trials


def result(step: int, score: float, protected: bool = False) -> dict[str, Any]:
    return {"step": step, "score": score, "protected": protected}


def started(scheduler: Any, name: str) -> Any:
    trial = SimpleNamespace(trial_id=name)
    scheduler.on_trial_add(CONTROLLER, trial)
    return trial


def asha(*curves: dict[int, float], **parameters: Any) -> Any:
    return schedulers.load("asha", **parameters).build(BUDGET, history(*curves))


@pytest.mark.parametrize("name", components.names(schedulers.PACKAGE))
def test_every_scheduler_continues_protected_and_failed_trials(name: str) -> None:
    scheduler: Any = schedulers.load(name).build(BUDGET, history(GOOD, {100: 0.4}, {}))
    assert isinstance(scheduler, TrialScheduler)
    reference, failed = started(scheduler, "reference"), started(scheduler, "failed")
    for step in range(0, 600, 100):
        decision = scheduler.on_trial_result(CONTROLLER, reference, result(step, 0.01, protected=True))
        assert decision == TrialScheduler.CONTINUE
    scheduler.on_trial_result(CONTROLLER, failed, {"step": 0, "protected": False})
    scheduler.on_trial_complete(CONTROLLER, reference, result(600, 0.01, protected=True))
    scheduler.on_trial_error(CONTROLLER, failed)


GOOD = {100: 0.5, 200: 0.6, 600: 0.7}


def test_a_trial_that_is_worse_than_those_of_an_earlier_session_is_stopped() -> None:
    scheduler = asha(GOOD, GOOD, GOOD)
    trial = started(scheduler, "new")
    assert scheduler.on_trial_result(CONTROLLER, trial, result(100, 0.1)) == TrialScheduler.STOP


def test_without_history_the_first_trial_continues() -> None:
    scheduler = asha()
    trial = started(scheduler, "new")
    assert scheduler.on_trial_result(CONTROLLER, trial, result(100, 0.1)) == TrialScheduler.CONTINUE


def test_the_reference_and_the_baseline_are_never_stopped_but_count() -> None:
    scheduler = asha(GOOD)
    protected = started(scheduler, "reference")
    decision = scheduler.on_trial_result(CONTROLLER, protected, result(100, 0.1, protected=True))
    assert decision == TrialScheduler.CONTINUE
    scheduler = asha()
    reference = started(scheduler, "reference")
    scheduler.on_trial_result(CONTROLLER, reference, result(100, 0.5, protected=True))
    worse = started(scheduler, "worse")
    assert scheduler.on_trial_result(CONTROLLER, worse, result(100, 0.1)) == TrialScheduler.STOP


def test_a_failed_trial_without_a_score_is_not_ranked() -> None:
    scheduler = asha(GOOD)
    trial = started(scheduler, "failed")
    decision = scheduler.on_trial_result(CONTROLLER, trial, {"step": 100, "protected": False})
    assert decision == TrialScheduler.CONTINUE


def test_rungs_follow_the_parameters() -> None:
    for parameters, rungs in (({}, [300, 100]), ({"reduction": 2, "rungs": 1}, [600, 300])):
        (bracket,) = asha(**parameters)._brackets
        assert [milestone for milestone, _ in bracket._rungs] == rungs


def test_none_stops_no_trial() -> None:
    assert isinstance(schedulers.load("none").build(BUDGET, []), FIFOScheduler)


def test_an_unknown_scheduler_or_parameter_is_an_error() -> None:
    with pytest.raises(UserError, match="no 'ashaa' in schedulers; did you mean 'asha'"):
        schedulers.load("ashaa")
    with pytest.raises(UserError, match="reduction must be at least 2; got 1"):
        schedulers.load("asha", reduction=1)
