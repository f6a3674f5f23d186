"""Who is stopped early: never the reference or the baseline, and a resumed search remembers its rungs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState, create_trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler

from dmltune.experiment import load_experiment
from dmltune.search.scheduling import scheduler_for

NOBODY: Any = None


def history(*curves: dict[int, float]) -> list[FrozenTrial]:
    study = optuna.create_study(direction="maximize")
    study.add_trials([create_trial(state=TrialState.PRUNED, intermediate_values=curve) for curve in curves])
    return study.trials


def result(step: int, score: float, protected: bool = False) -> dict[str, Any]:
    return {"step": step, "score": score, "protected": protected}


def started(scheduler: Any, name: str) -> Any:
    trial = SimpleNamespace(trial_id=name)
    scheduler.on_trial_add(NOBODY, trial)
    return trial


GOOD = {100: 0.5, 200: 0.6, 600: 0.7}


def test_a_trial_that_is_worse_than_what_an_earlier_session_saw_is_stopped() -> None:
    experiment = load_experiment("glyphs-ccp", ["scheduler=asha"])
    asha = scheduler_for(experiment, history(GOOD, GOOD, GOOD))
    trial = started(asha, "new")
    assert asha.on_trial_result(NOBODY, trial, result(100, 0.1)) == TrialScheduler.STOP


def test_without_history_the_first_trial_goes_on() -> None:
    asha = scheduler_for(load_experiment("glyphs-ccp", ["scheduler=asha"]), [])
    trial = started(asha, "new")
    assert asha.on_trial_result(NOBODY, trial, result(100, 0.1)) == TrialScheduler.CONTINUE


def test_the_reference_and_the_baseline_are_never_stopped_but_count() -> None:
    asha = scheduler_for(load_experiment("glyphs-ccp", ["scheduler=asha"]), history(GOOD))
    protected = started(asha, "reference")
    assert asha.on_trial_result(NOBODY, protected, result(100, 0.1, True)) == TrialScheduler.CONTINUE
    fresh = scheduler_for(load_experiment("glyphs-ccp", ["scheduler=asha"]), [])
    reference = started(fresh, "reference")
    fresh.on_trial_result(NOBODY, reference, result(100, 0.5, True))
    worse = started(fresh, "worse")
    assert fresh.on_trial_result(NOBODY, worse, result(100, 0.1)) == TrialScheduler.STOP


def test_a_failed_trial_without_a_score_is_not_ranked() -> None:
    asha = scheduler_for(load_experiment("glyphs-ccp", ["scheduler=asha"]), history(GOOD))
    trial = started(asha, "failed")
    assert asha.on_trial_result(NOBODY, trial, {"step": 100, "protected": False}) == TrialScheduler.CONTINUE


def test_no_scheduler_stops_nobody() -> None:
    assert isinstance(scheduler_for(load_experiment("glyphs-ccp", ["scheduler=none"]), []), FIFOScheduler)
