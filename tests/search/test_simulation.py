"""`dmltune.simulate`: whole searches in simulated time on functions whose optimum is known."""

from __future__ import annotations

import math
import random
import statistics
from typing import Any

import pytest

import dmltune
from dmltune.errors import UserError
from dmltune.search.simulation import Simulated

SPACE = {"x": {"float": [0.0, 1.0]}, "rate": {"float": [1.0e-4, 1.0], "log": True}}
STEPS = 9


def final(values: dict[str, Any]) -> float:
    """The best is 1, at x = 0.7 and rate = 0.01."""
    return math.exp(-4 * (values["x"] - 0.7) ** 2 - 0.3 * math.log10(values["rate"] / 0.01) ** 2)


def curve(values: dict[str, Any], seed: int) -> tuple[list[float], float]:
    return [final(values) * (1 - 0.5**step) for step in range(1, STEPS + 1)], 2.0


def noisy(values: dict[str, Any], seed: int) -> tuple[list[float], float]:
    error = random.Random(repr((sorted(values.items()), seed))).gauss(0.0, 0.02)
    return [score + error for score in curve(values, seed)[0]], 1.0


def simulated(function: Any = curve, **options: Any) -> Simulated:
    return dmltune.simulate(SPACE, function, **{"trials": 24, "max_steps": STEPS, **options})


def test_events_are_the_validations_on_a_clock_of_parallel_workers() -> None:
    found = simulated(workers=3, scheduler="none", repeat_share=0.0)
    times = [time for time, *_ in found.events]
    assert times == sorted(times)
    assert times[:3] == [2.0] * 3
    assert found.seconds == times[-1] == 24 / 3 * STEPS * 2.0  # nobody waits
    for _, number, values, step, score in found.events:
        assert score == curve(values, 0)[0][step - 1]
        assert values == found.trials[number].values
    assert len(found.events) == 24 * STEPS
    sparse = simulated(validate_every=4, scheduler="none", trials=2, repeat_share=0.0)
    assert sorted({step for *_, step, _ in sparse.events}) == [4, 8, 9]


@pytest.mark.parametrize("scheduler", ["asha", "promote", "hyperband", "median", "topk"])
def test_the_same_seed_gives_the_same_search_and_a_scheduler_saves_work(scheduler: str) -> None:
    one, same, other = (simulated(scheduler=scheduler, seed=seed) for seed in (0, 0, 1))
    assert one.events == same.events
    assert (one.winner, one.winner_set) == (same.winner, same.winner_set)
    assert one.events != other.events
    share = len(simulated(scheduler=scheduler, repeat_share=0.0).events) / (24 * STEPS)
    assert share < 1.0
    assert not any(trial.state in ("running", "paused") for trial in one.trials.values())


def test_the_engine_finds_a_better_point_than_random_search_at_the_same_cost() -> None:
    def regrets(**options: Any) -> list[float]:
        found = (simulated(seconds=90.0, trials=None, seed=seed, **options) for seed in range(4))
        return [1 - final(each.winner) for each in found if each.winner]

    ours, at_random = regrets(), regrets(sampler="random", scheduler="none")
    assert len(ours) == len(at_random) == 4
    assert statistics.fmean(ours) < 0.25 * statistics.fmean(at_random)


def test_what_would_be_chosen_at_a_moment_knows_only_what_was_seen_until_then() -> None:
    found = simulated(workers=2)
    assert found.best_at(1.9) is None
    first = found.best_at(2.0)
    assert first in [values for time, _, values, _, _ in found.events if time <= 2.0]
    whole = [event for event in found.events if event[0] <= 100.0]
    assert found.best_at(100.0) == max(whole, key=lambda event: event[4])[2]
    assert found.best_at(found.seconds) == found.winner
    assert found.winner_set[0] == found.winner


def test_lower_is_better_with_mode_min() -> None:
    def loss(values: dict[str, Any], seed: int) -> tuple[list[float], float]:
        scores, seconds = curve(values, seed)
        return [-score for score in scores], seconds

    up, down = simulated(), simulated(loss, mode="min")
    assert [event[:4] for event in up.events] == [event[:4] for event in down.events]
    assert [-event[4] for event in up.events] == [event[4] for event in down.events]
    assert (up.winner, up.best_at(60.0)) == (down.winner, down.best_at(60.0))


def test_candidates_are_repeated_with_other_seeds_unless_the_seed_has_no_effect() -> None:
    def repeats(found: Simulated) -> list[int]:
        return [trial.seed for trial in found.trials.values() if trial.repeats is not None]

    with_noise = simulated(noisy, trials=30)
    assert 3 <= len(repeats(with_noise)) <= 6
    assert 0 not in repeats(with_noise)
    assert with_noise.verdict is not None
    assert with_noise.verdict.noise == pytest.approx(0.02, rel=1.0)
    exact = simulated(trials=30)
    assert len(repeats(exact)) <= 4  # the first ones, one for each worker, showed it
    assert len(exact.trials) == 30


def test_a_diverged_training_counts_as_bad_and_a_search_of_nothing_else_has_no_winner() -> None:
    def half(values: dict[str, Any], seed: int) -> tuple[list[float], float]:
        return ([*curve(values, seed)[0][:1], math.nan], 2.0) if values["x"] < 0.5 else curve(values, seed)

    found = simulated(half, trials=40)
    failed = [trial for trial in found.trials.values() if trial.state == "failed"]
    assert failed
    assert len(failed) < 20  # the sampler leaves that half
    assert found.winner is not None
    assert found.winner["x"] >= 0.5
    nothing = simulated(lambda values, seed: ([math.nan] * STEPS, 1.0))
    assert (nothing.winner, nothing.winner_set, nothing.events) == (None, [], [])
    assert nothing.best_at(1e9) is None


def test_a_limit_of_seconds_ends_in_the_middle_of_trials() -> None:
    found = simulated(trials=None, seconds=13.0, workers=2, scheduler="none")
    assert max(time for time, *_ in found.events) == 12.0
    assert found.verdict is None  # no trial is complete
    assert found.winner == found.best_at(13.0) is not None


def test_rules_conditions_and_the_reference_point_are_those_of_a_yaml_file() -> None:
    space = {
        "kind": {"choice": ["a", "b"]},
        "k": {"int": [1, 8], "when": {"kind": "a"}},
        "n": {"int": [1, 8]},
    }

    def function(values: dict[str, Any], seed: int) -> tuple[list[float], float]:
        return [values.get("k", 0) + values["n"] / 10], 1.0

    reference = {"kind": "a", "k": 2, "n": 3}
    found = dmltune.simulate(
        space, function, max_steps=1, trials=20, require=["n >= k"], reference_point=reference
    )
    points = [trial.values for trial in found.trials.values() if trial.repeats is None]
    assert points[0] == reference
    assert all(("k" in values) == (values["kind"] == "a") for values in points)
    assert all(values["n"] >= values.get("k", 0) for values in points)
    assert len({tuple(values.items()) for values in points}) == len(points)
    assert found.winner == {"kind": "a", "k": 8, "n": 8}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trials": None}, "simulate needs an end"),
        ({"workers": 0}, "workers must be a whole number from 1 on; got 0"),
        ({"trials": 0}, "trials must be a whole number from 1 on; got 0"),
        ({"trials": 4.5}, r"trials must be .*; got 4\.5"),
        ({"noise_seeds": True}, "noise_seeds must be .*; got True"),
        ({"seed": "a"}, "seed must be a whole number from 0 on; got 'a'"),
        ({"trials": None, "seconds": float("inf")}, "seconds must be a finite number above 0; got inf"),
        ({"seconds": -1}, "seconds must be a finite number above 0; got -1"),
        ({"repeat_share": 1.0}, r"repeat_share must be at least 0 and below 1; got 1\.0"),
        ({"mode": "best"}, "mode must be max or min; got best"),
        ({"sampler": "gpp"}, "gpp"),
        ({"scheduler": "asha2"}, "asha2"),
        ({"noize_seeds": 3}, "simulate has no option 'noize_seeds'"),
        ({"reference_point": {"x": 2.0}}, "x"),
    ],
)
def test_a_mistake_is_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        simulated(**options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("curve", "message"),
    [
        (([0.5] * STEPS, 0.0), "seconds per step must be above 0; got 0"),
        (([0.5] * STEPS, float("nan")), "seconds per step must be above 0; got nan"),
        (([], 1.0), "the curve has no score"),
        ([0.5] * STEPS, "the curve must be a pair"),
        ([0.5, 1.0], "the curve must be a pair"),
        (None, "the curve must be a pair: .*; got None"),
    ],
)
def test_a_curve_of_another_form_is_refused_in_one_line(curve: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        simulated(lambda values, seed: curve)
