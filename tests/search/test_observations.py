"""What a sampler is told of many trials, of which only the best and the latest are considered."""

from __future__ import annotations

import random

import pytest
from optuna.trial import FrozenTrial

from dmltune.search import observations
from dmltune.search.engine_trial import EngineTrial
from dmltune.search.observations import Observations
from dmltune.search.simulated_space import simulated_space

SPACE = simulated_space({"x": {"float": [0.0, 1.0]}})
MOST = 20


def told_of(observed: Observations, trials: list[EngineTrial]) -> list[float]:
    return [told.params["x"] for told in observed.of(trials)]


@pytest.mark.parametrize("seed", range(4))
def test_the_best_and_the_latest_are_the_same_whether_all_was_seen_at_once_or_in_turn(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observations, "MOST", MOST)
    draws, in_turn = random.Random(seed), Observations(SPACE)
    trials: list[EngineTrial] = []
    for number in range(80):
        score = draws.choice([0.25, 0.5, draws.random()])  # with ties
        trial = EngineTrial(number, "search", {"x": draws.random()}, steps=[1], scores=[score])
        trials.append(trial)
        trial.state = draws.choice(["complete", "pruned", "failed", "running", "paused"])  # type: ignore[assignment]
        for other in trials:  # what runs or is paused goes on or ends later
            if other.state in ("running", "paused") and draws.random() < 0.1:
                other.add(other.steps[-1] + 1, draws.random())
                other.state = draws.choice(["complete", "pruned", "running", "paused"])  # type: ignore[assignment]
        found = told_of(in_turn, trials)
        assert found == told_of(Observations(SPACE), trials)
        older = sorted(trials[: -MOST // 2], key=lambda t: (-max(t.scores), t.number))[: MOST // 2]
        expected = [*sorted(older, key=lambda t: t.number), *trials[-MOST // 2 :]]
        if number >= MOST:
            assert found == [trial.values["x"] for trial in expected]


def test_a_sampler_knows_which_trials_were_stopped() -> None:
    states = ["complete", "pruned", "paused", "running", "failed"]
    trials = [
        EngineTrial(number, "search", {"x": number / 9}, state=state, steps=[1], scores=[0.5])  # type: ignore[arg-type]
        for number, state in enumerate(states)
    ]
    stopped = [told.user_attrs["stopped"] for told in Observations(SPACE).of(trials)]
    assert stopped == [False, True, True, False, False]


def contents(told: FrozenTrial) -> tuple[object, ...]:
    return told.number, told.state, told.values, told.params, told.user_attrs


@pytest.mark.parametrize("seed", range(4))
def test_what_is_told_does_not_depend_on_what_was_asked_before(seed: int) -> None:
    """Of points, repetitions and the baseline that run, go on and end between the questions."""
    draws, in_turn = random.Random(seed), Observations(SPACE)
    trials = [EngineTrial(0, "baseline", {}, state="complete", steps=[1], scores=[0.5])]
    for number in range(1, 60):
        ended = [trial.number for trial in trials if trial.state == "complete" and trial.repeats is None]
        repeats = draws.choice(ended) if draws.random() < 0.3 else None
        values = {"x": draws.random()} if repeats is None else trials[repeats].values
        role = "search" if repeats is None else "repeat"
        trials.append(EngineTrial(number, role, values, seed=number, repeats=repeats))  # type: ignore[arg-type]
        for trial in trials:
            if trial.state in ("running", "paused") and draws.random() < 0.6:
                trial.add(len(trial.steps) + 1, draws.choice([draws.random(), float("nan")]))
                trial.state = draws.choice(["complete", "pruned", "failed", "running", "paused"])  # type: ignore[assignment]
        found, expected = in_turn.of(trials), Observations(SPACE).of(trials)
        assert list(map(contents, found)) == list(map(contents, expected))
    fewer = trials[:5]  # another search
    assert list(map(contents, in_turn.of(fewer))) == list(map(contents, Observations(SPACE).of(fewer)))


def test_a_validation_that_was_taken_back_does_not_count() -> None:
    trial = EngineTrial(0, "search", {})
    for step, score in enumerate([0.3, 0.9], start=1):
        trial.add(step, score)
    assert trial.best == 0.9
    trial.pop()
    assert trial.best == 0.3
    trial.add(2, 0.5)
    assert trial.best == 0.5
