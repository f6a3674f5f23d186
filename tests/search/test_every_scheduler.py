"""The contract of every scheduler: any file of dmltune/search/schedulers is found and tested."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from optuna.trial import FrozenTrial, TrialState, create_trial
from ray.tune.schedulers import TrialScheduler

from dmltune.core import components
from dmltune.errors import UserError
from dmltune.experiment import load_experiment
from dmltune.search import schedulers

NAMES = components.names(schedulers.PACKAGE)
BUDGET = schedulers.Budget(max_steps=90, validate_every=10, mode="max")
HISTORY: list[FrozenTrial] = [
    create_trial(state=TrialState.COMPLETE, value=0.9, intermediate_values={10: 0.8, 30: 0.85, 90: 0.9}),
    create_trial(state=TrialState.PRUNED, intermediate_values={10: 0.7}),
    create_trial(state=TrialState.FAIL),
]


def decisions(scheduler: Any, trial_id: str, scores: list[float], protected: bool = False) -> list[str]:
    """What it says after every validation, until it stops the trial."""
    trial = SimpleNamespace(trial_id=trial_id)
    scheduler.on_trial_add(None, trial)
    answers: list[str] = []
    for number, score in enumerate(scores, start=1):
        result = {"step": 10 * number, "score": score, "protected": protected}
        answers.append(scheduler.on_trial_result(None, trial, result))
        if answers[-1] == TrialScheduler.STOP:
            break
    return answers


@pytest.mark.parametrize("name", NAMES)
def test_the_best_trial_goes_on_and_a_protected_one_is_never_stopped(name: str) -> None:
    scheduler = schedulers.load(name).build(BUDGET, HISTORY)
    for number in range(6):
        decisions(scheduler, f"middling-{number}", [0.5] * 8)
    assert TrialScheduler.STOP not in decisions(scheduler, "best", [0.99] * 8)
    assert TrialScheduler.STOP not in decisions(scheduler, "protected", [0.01] * 8, protected=True)


@pytest.mark.parametrize("name", NAMES)
def test_a_failed_trial_leaves_it_without_an_error(name: str) -> None:
    scheduler = schedulers.load(name).build(BUDGET, [])
    trial = SimpleNamespace(trial_id="failed")
    scheduler.on_trial_add(None, trial)
    scheduler.on_trial_error(None, trial)
    assert decisions(scheduler, "next", [0.5])


@pytest.mark.parametrize("name", NAMES)
def test_its_parameters_have_defaults_and_a_yaml_may_name_it(name: str) -> None:
    cls = components.find(schedulers.PACKAGE, name)
    assert cls.__doc__
    assert all(p.default is not p.empty for p in components.parameters(cls).values())
    assert load_experiment("glyphs-ccp", [f"scheduler={name}"]).scheduler.name == name


def test_an_unknown_scheduler_or_parameter_is_an_error_with_the_nearest_name() -> None:
    with pytest.raises(UserError, match="did you mean 'asha'"):
        load_experiment("glyphs-ccp", ["scheduler=ashaa"])
    with pytest.raises(UserError, match="at least 2"):
        load_experiment("glyphs-ccp", ["scheduler={name: asha, reduction: 1}"])


def test_asha_stops_the_worst_and_a_resumed_search_has_the_rungs_of_the_past() -> None:
    fresh, resumed = (schedulers.load("asha").build(BUDGET, history) for history in ([], HISTORY))
    assert decisions(fresh, "first", [0.5]) == [TrialScheduler.CONTINUE]
    assert decisions(resumed, "first", [0.5]) == [TrialScheduler.STOP]
