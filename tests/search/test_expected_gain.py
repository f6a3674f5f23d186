"""The expected gain of further candidates, and the stop rule made of it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from dmltune.search.expected_gain import expected_gain, gain_is_noise, tail


def test_the_gain_of_several_candidates_is_that_of_drawn_ones() -> None:
    means, sds = np.array([0.0, 0.5, -2.0, 0.3]), np.array([1.0, 0.4, 3.0, 0.0])
    draws = means + sds * np.random.default_rng(0).normal(size=(400_000, 4))
    simulated = np.maximum(draws.max(axis=1) - 0.2, 0)
    assert expected_gain(0.2, means, sds) == pytest.approx(simulated.mean(), abs=0.006)


@pytest.mark.parametrize("best", [-2.0, 0.0, 1.0, 4.0])
def test_the_gain_of_one_candidate_is_the_expected_improvement(best: float) -> None:
    z = (0.5 - best) / 0.8
    expected = (0.5 - best) * norm.cdf(z) + 0.8 * norm.pdf(z)
    assert expected_gain(best, [0.5], [0.8]) == pytest.approx(expected, abs=1e-5)


def test_draws_count_as_equal_candidates() -> None:
    assert expected_gain(1.0, [0.0], [1.0], draws=7) == pytest.approx(
        expected_gain(1.0, [0.0] * 7, [1.0] * 7)
    )
    assert expected_gain(1.0, [2.5], [0.0], draws=3) == 1.5
    assert expected_gain(1.0, [2.5], [1.0], draws=0) == 0.0
    assert expected_gain(1.0, [], []) == 0.0


def test_the_tail_ignores_the_lower_half() -> None:
    scores = 3.0 + 0.5 * np.random.default_rng(1).normal(size=4000)
    assert tail(scores.tolist()) == pytest.approx((3.0, 0.5), abs=0.04)
    spoiled = np.where(scores < np.median(scores), scores - 50, scores)
    assert tail(spoiled.tolist()) == pytest.approx((3.0, 0.5), abs=0.04)


def stopped(spread: float, number: int, remaining: int | None = None) -> float:
    """Return in how many of 200 searches the rule stops; the noise is 1."""
    rng = np.random.default_rng(2)
    scores = spread * rng.normal(size=(200, number)) + rng.normal(size=(200, number))
    return float(np.mean([gain_is_noise(row.tolist(), 1.0, remaining) for row in scores]))


def test_a_search_among_equals_stops_and_one_with_large_differences_goes_on() -> None:
    assert stopped(0.0, 40) > 0.95
    assert stopped(100.0, 40) < 0.1


@pytest.mark.parametrize("spread", [2.0, 4.0, 8.0])
def test_the_rule_decides_like_one_that_knows_the_population(spread: float) -> None:
    rng = np.random.default_rng(3)
    trust = spread**2 / (spread**2 + 1)
    agree = []
    for _ in range(200):
        scores = spread * rng.normal(size=400) + rng.normal(size=400)
        gain = expected_gain(trust * scores.max(), [0.0], [spread], draws=50)
        agree.append(gain_is_noise(scores.tolist(), 1.0, remaining=50) == (gain < 1))
    assert np.mean(agree) > 0.85


def test_many_trials_that_are_left_are_a_reason_to_go_on() -> None:
    assert stopped(8.0, 40, remaining=1) > 0.95 > 0.2 > stopped(8.0, 40, remaining=4000)


def test_few_trials_or_a_sampler_that_improves_go_on() -> None:
    assert not gain_is_noise([1.0] * 9, 0.1)
    assert gain_is_noise([1.0] * 20, 0.1)
    assert not gain_is_noise([0.5 * i for i in range(20)], 0.1)
    assert not gain_is_noise([1.0] * 20, 0.0)
