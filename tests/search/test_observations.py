"""What a sampler is told of many trials, of which only the best and the latest are considered."""

from __future__ import annotations

import random

import pytest

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
