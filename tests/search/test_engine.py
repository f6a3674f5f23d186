"""The engine without Ray: the order of trials, decisions, and that a resumed search is an undisturbed one."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmltune.search import samplers, schedulers
from dmltune.search.budget import Plan
from dmltune.search.engine import END, WAIT, Continue, Engine, Start
from dmltune.search.engine_trial import EngineTrial
from dmltune.search.sampling import Proposer
from dmltune.search.simulated_space import simulated_space

SPACE = simulated_space(
    {"x": {"float": [0.0, 1.0]}, "n": {"int": [1, 9]}}, reference_point={"x": 0.5, "n": 5}
)
STEPS, EVERY = 9, 1
Score = Callable[[EngineTrial, int], float]


def make(scheduler: str = "promote", sampler: str = "random", **plan: Any) -> Engine:
    planned = {"points": 8, "baseline": True, "noise_repeats": 2, "repeats": 3} | plan
    chosen = samplers.load(sampler)
    proposer = Proposer(SPACE, lambda seed: chosen.build(8, seed), "max", 0)
    rule = schedulers.load(scheduler).build(schedulers.Budget(STEPS, EVERY))
    return Engine(Plan(reference=SPACE.reference_point, **planned), rule, proposer)


def noisy(trial: EngineTrial, step: int) -> float:
    """The higher the nearer x is to 0.3; noise by seed, number of the configuration and step."""
    values = trial.values or {"x": 0.9, "n": 1}
    noise = ((trial.seed * 7919 + trial.configuration * 104729 + step * 31) % 100) / 2000
    return step / STEPS * (1 - (values["x"] - 0.3) ** 2) + noise


def start(engine: Engine, found: Start | Continue) -> EngineTrial:
    if isinstance(found, Continue):
        return engine.trials[found.number]
    trial = EngineTrial(
        len(engine.trials), found.role, dict(found.proposal.values), found.seed, found.fold, found.repeats
    )
    engine.add(trial)
    return trial


def advance(engine: Engine, trial: EngineTrial, score: Score = noisy) -> bool:
    """Validate once; whether the trial goes on."""
    step = (trial.steps[-1] if trial.steps else 0) + EVERY
    decision = engine.report(trial.number, step, score(trial, step))
    if step == STEPS:
        engine.end(trial.number, "complete")
    elif decision != "continue":
        engine.end(trial.number, "pruned" if decision == "stop" else "paused")
    return trial.state == "running"


def run(engine: Engine, score: Score = noisy) -> Engine:
    """One trial at a time, to the end."""
    for _ in range(1000):
        found = engine.next()
        if found == END:
            return engine
        assert isinstance(found, Start | Continue)
        trial = start(engine, found)
        while advance(engine, trial, score):
            pass
    raise AssertionError("the search does not end")


def shape(engine: Engine) -> list[Any]:
    return [(t.role, dict(t.values), t.seed, t.repeats, t.state, t.scores) for t in engine.trials.values()]


def test_reference_baseline_noise_points_and_repetitions_come_in_this_order() -> None:
    engine = run(make("none"))
    roles = [trial.role for trial in engine.trials.values()]
    assert roles == ["reference", "baseline", "repeat", "repeat", *["search"] * 7, *["repeat"] * 3]
    noise = [engine.trials[number] for number in (2, 3)]
    assert [(trial.repeats, trial.seed) for trial in noise] == [(0, 1), (0, 2)]
    assert len(engine.trials) == engine.plan.total


def test_repetitions_train_good_candidates_and_the_baseline_on_shared_seeds() -> None:
    engine = run(make("none", points=12, repeats=6))
    repeated = [trial for trial in engine.trials.values() if trial.repeats][-6:]
    assert {trial.seed for trial in repeated} <= {1, 2, 3}
    means = {t.number: noisy(t, STEPS) for t in engine.trials.values() if t.is_point}
    ranked = sorted(means, key=lambda number: -means[number])
    for trial in repeated:
        assert trial.repeats == 1 or trial.repeats in ranked[: 3 * len(ranked) // 4]
    verdict = engine.verdict()
    assert verdict is not None
    assert verdict.noise is not None
    assert verdict.corrected is not None
    assert verdict.winner in verdict.winner_set


def test_without_noise_one_repetition_is_stopped_and_the_budget_goes_to_points() -> None:
    engine = run(
        make("none", noise_repeats=0),
        lambda trial, step: step * (1 - (trial.values or SPACE.reference_point)["x"]),
    )
    repeats = [trial for trial in engine.trials.values() if trial.role == "repeat"]
    assert [(trial.state, trial.steps) for trial in repeats] == [("pruned", [1])]
    assert len(engine.trials) == engine.plan.total
    verdict = engine.verdict()
    assert verdict is not None
    assert verdict.noise == 0
    assert verdict.corrected is not None
    assert verdict.corrected.low == verdict.corrected.high


@pytest.mark.parametrize("scheduler", ["asha", "promote", "hyperband", "median", "topk", "none"])
@given(cuts=st.lists(st.integers(1, 60), min_size=1, max_size=3))
@settings(max_examples=12, deadline=None)
def test_a_search_that_is_cut_anywhere_goes_on_as_an_undisturbed_one(scheduler: str, cuts: list[int]) -> None:
    """After a validation the driver is killed before the decision is known; a new engine has the trials."""
    undisturbed = shape(run(make(scheduler, "random")))
    engine, events = make(scheduler, "random"), 0
    while (found := engine.next()) != END:
        assert isinstance(found, Start | Continue)
        trial, goes_on = start(engine, found), True
        while goes_on:
            events += 1
            if events in cuts and (trial.steps or [0])[-1] + EVERY < STEPS:
                step = (trial.steps[-1] if trial.steps else 0) + EVERY
                trial.add(step, noisy(trial, step))  # written, and the driver is gone
                engine, trial = resumed(engine, trial.number)
                goes_on = decide(engine, trial)
            else:
                goes_on = advance(engine, trial)
    assert shape(engine) == undisturbed


def resumed(engine: Engine, number: int) -> tuple[Engine, EngineTrial]:
    again = make(type_of(engine), "random")
    for trial in copy.deepcopy(list(engine.trials.values())):
        again.add(trial)
    return again, again.trials[number]


def type_of(engine: Engine) -> str:
    return type(engine.rule).__module__.rpartition(".")[2]


def decide(engine: Engine, trial: EngineTrial) -> bool:
    decision = engine.decide_again(trial.number)
    if decision != "continue":
        engine.end(trial.number, "pruned" if decision == "stop" else "paused")
    return trial.state == "running"


def test_a_report_that_is_repeated_changes_nothing() -> None:
    engine = make("asha")
    trial = start(engine, engine.next())  # type: ignore[arg-type]
    engine.report(trial.number, 1, 0.5)
    before = copy.deepcopy(trial)
    assert engine.report(trial.number, 1, 0.9) == "continue"
    assert trial == before


def test_protected_trials_are_never_stopped() -> None:
    def score(trial: EngineTrial, step: int) -> float:
        return step * (0.01 if trial.protected else trial.values["x"]) + trial.seed / 97

    engine = run(make("asha"), score)
    assert all(trial.state == "complete" for trial in engine.trials.values() if trial.protected)
    assert any(trial.state == "pruned" for trial in engine.trials.values())


def test_an_end_waits_for_running_trials_and_a_finite_space_ends() -> None:
    space = simulated_space({"x": {"choice": [0.1, 0.2]}})
    chosen = samplers.load("random")
    proposer = Proposer(space, lambda seed: chosen.build(9, seed), "max", 0)
    engine = Engine(Plan(points=9), schedulers.load("none").build(schedulers.Budget(9, 1)), proposer)
    trials = [start(engine, engine.next()) for _ in range(2)]  # type: ignore[arg-type]
    assert engine.next() == WAIT
    for trial in trials:
        engine.report(trial.number, 9, 0.5)
        engine.end(trial.number, "complete")
    assert engine.next() == END


def test_failed_and_used_up_budgets_end_the_search() -> None:
    used = 0.0
    engine = make("none", used=lambda: used, noise_repeats=0, repeats=10**6, points=10**6)
    for _ in range(6):
        trial = start(engine, engine.next())  # type: ignore[arg-type]
        engine.end(trial.number, "failed" if trial.number == 3 else "complete")
        if trial.state == "complete":
            trial.add(9, noisy(trial, 9))
    used = 0.85  # time for repetitions
    found = engine.next()
    assert isinstance(found, Start)
    assert found.role == "repeat"
    used = 1.0
    assert engine.next() == END


def test_a_fold_race_runs_the_good_ones_on_every_fold_and_drops_bad_ones() -> None:
    def by_fold(trial: EngineTrial, step: int) -> float:
        values = trial.values or {"x": 0.9}
        wobble = ((trial.configuration * 7919 + trial.fold * 31) % 10) / 1000
        return 1 - abs(values["x"] - 0.3) + 0.05 * trial.fold + wobble

    engine = run(make("none", points=40, folds=3, noise_repeats=0, repeats=0, baseline=False), by_fold)
    points = [trial for trial in engine.trials.values() if trial.is_point]
    folds = {
        point.number: {t.fold for t in engine.trials.values() if t.configuration == point.number}
        for point in points
    }
    assert folds[0] == {0, 1, 2}  # the reference point is protected
    assert len(engine.trials) == 40
    best = min(points, key=lambda point: abs(point.values["x"] - 0.3))
    worst = max(points[5:-2], key=lambda point: abs(point.values["x"] - 0.3))
    assert len(folds[worst.number]) < 3
    assert len(folds[best.number]) == 3 or best.number >= points[-2].number
