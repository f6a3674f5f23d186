"""Estimates of final scores: exact where the curves are lines, calibrated where they are noisy."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from dmltune.search.engine_trial import EngineState, EngineTrial
from dmltune.search.extrapolation import STAGES, final_estimates

NOISE = 0.01


def trial(
    number: int, scores: list[float], state: EngineState = "complete", every: int = 1, first: int = 1
) -> EngineTrial:
    steps = [first + every * index for index in range(len(scores))]
    return EngineTrial(number, "search", {}, state=state, steps=steps, scores=scores)


def saturating(quality: float, steps: int = 8) -> list[float]:
    return [quality * (1 - 0.6**step) for step in range(1, steps + 1)]


def noisy(rng: np.random.Generator, steps: int = 10) -> list[float]:
    """A curve of gains that shrink and are larger for better trials, with noise."""
    gains = 0.6 ** np.arange(steps) * (5 + rng.normal() + rng.normal(0, 0.4, steps))
    return list(np.cumsum(gains))


def test_a_complete_trial_has_its_score_and_the_noise() -> None:
    estimate = final_estimates([trial(4, [0.1, 0.7, 0.6])], NOISE)[4]
    assert (estimate.mean, estimate.sd) == (0.7, NOISE)


def test_proportional_curves_are_continued_almost_exactly() -> None:
    complete = [trial(n, saturating(0.3 + 0.02 * n)) for n in range(40)]
    stopped = [trial(100 + n, saturating(0.2 + 0.1 * n)[:3], "pruned") for n in range(8)]
    estimates = final_estimates(complete + stopped, 0.0)
    for n in range(8):
        truth = saturating(0.2 + 0.1 * n)[-1]
        assert estimates[100 + n].mean == pytest.approx(truth, abs=0.03)
        assert abs(estimates[100 + n].mean - truth) < 3 * estimates[100 + n].sd


def errors_of_stopped(count: int, seeds: int) -> np.ndarray:
    """In units of the estimate's deviation, where the worse two thirds were stopped at the third step."""
    errors: list[float] = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        curves = [noisy(rng) for _ in range(count)]
        stopped = set(np.argsort([curve[2] for curve in curves])[: 2 * count // 3].tolist())
        trials = [trial(n, c[:3], "pruned") if n in stopped else trial(n, c) for n, c in enumerate(curves)]
        estimates = final_estimates(trials, 0.0)
        errors += [(curves[n][-1] - estimates[n].mean) / estimates[n].sd for n in stopped]
    return np.array(errors)


def test_that_trials_were_stopped_by_their_score_does_not_bias_their_estimates() -> None:
    assert abs(np.mean(errors_of_stopped(600, seeds=5))) < 0.15


def test_estimates_of_few_trials_cover_the_truth() -> None:
    """The slope is shrunk, which costs some bias far below the survivors."""
    errors = errors_of_stopped(30, seeds=60)
    assert np.mean(np.abs(errors) < 2) > 0.9
    assert 0.5 < np.sqrt(np.mean(errors**2)) < 1.3


def test_fewer_validations_are_less_certain_and_more_trials_more_certain() -> None:
    rng = np.random.default_rng(0)
    curves = [noisy(rng) for _ in range(60)]
    complete = [trial(n, curve) for n, curve in enumerate(curves)]
    target = noisy(rng)
    sds = [final_estimates([*complete, trial(99, target[:k], "paused")], 0.0)[99].sd for k in (1, 3, 6, 9)]
    assert sds == sorted(sds, reverse=True)
    few = final_estimates([*complete[:3], trial(99, target[:3], "paused")], 0.0)[99].sd
    many = final_estimates([*complete, trial(99, target[:3], "paused")], 0.0)[99].sd
    assert few > many


def test_an_estimate_is_never_below_what_the_trial_has_reached() -> None:
    rng = np.random.default_rng(1)
    trials = [
        trial(n, list(rng.normal(size=9))[: 1 + n % 9], "pruned" if n % 3 else "complete") for n in range(60)
    ]
    for number, estimate in final_estimates(trials, NOISE).items():
        assert estimate.mean >= max(trials[number].scores) - 1e-12
        assert estimate.sd >= NOISE


def test_without_a_complete_trial_the_best_stays_and_the_deviation_widens() -> None:
    running = [trial(n, saturating(0.2 * (n + 1))[:2], "running") for n in range(4)]
    estimates = final_estimates(running, NOISE)
    for each in running:
        assert estimates[each.number].mean == pytest.approx(max(each.scores))
        assert estimates[each.number].sd > 2 * NOISE


def test_failed_and_diverged_trials_are_bad_and_not_absent() -> None:
    trials = [
        trial(0, [0.5, 0.6]),
        trial(1, [0.2, 0.3]),
        trial(2, [0.9], "failed"),
        trial(3, [], "failed"),
        trial(4, [math.nan, -math.inf], "pruned"),
        trial(5, [0.4, math.nan], "pruned"),  # leaves the model of its first validation
        trial(6, [math.nan, 0.5]),
    ]
    means = {number: estimate.mean for number, estimate in final_estimates(trials, NOISE).items()}
    assert means == {0: 0.6, 1: 0.3, 2: 0.3, 3: 0.3, 4: 0.3, 5: 0.4, 6: 0.5}


def test_a_trial_without_a_validation_after_step_0_has_no_estimate() -> None:
    untrained = trial(1, [0.2], "running", first=0)
    assert set(final_estimates([trial(0, [0.5]), untrained, trial(2, [], "running")], NOISE)) == {0}
    assert final_estimates([], NOISE) == {}
    assert final_estimates([trial(0, [], "failed")], NOISE) == {}


def test_one_outlier_does_not_move_the_others() -> None:
    complete = [trial(n, saturating(0.5 + 0.01 * n)) for n in range(20)]
    stopped = trial(50, saturating(0.6)[:3], "pruned")
    usual = final_estimates([*complete, stopped], NOISE)[50]
    diverged = trial(51, [-1e6] * 8)
    with_outlier = final_estimates([*complete, diverged, stopped], NOISE)[50]
    assert with_outlier.mean == pytest.approx(usual.mean, abs=0.05)
    assert with_outlier.sd < usual.sd + 0.1


@pytest.mark.parametrize("score", [-10.0, -1e6, -1e12])
def test_a_stopped_trial_that_was_far_worse_than_the_others_is_surely_bad(score: float) -> None:
    complete = [trial(n, saturating(0.70 + 0.0005 * n)) for n in range(20)]
    stopped = [trial(50 + n, saturating(0.3 + 0.02 * n)[:2], "pruned") for n in range(10)]
    estimate = final_estimates([*complete, *stopped, trial(99, [score, score], "pruned")], NOISE)[99]
    assert estimate.mean + estimate.sd < 0.69  # the complete ones have 0.69 to 0.70


def test_trials_of_other_lengths_and_intervals_are_compared_at_common_steps() -> None:
    """Trials that ended by themselves at step 8 keep their score; others validate every second step."""
    complete = [trial(n, saturating(0.4 + 0.02 * n, 8 + 4 * (n % 2))) for n in range(20)]
    sparse = trial(50, saturating(0.6, 12)[1:6:2], "pruned", every=2, first=2)
    estimate = final_estimates([*complete, sparse], 0.0)[50]
    assert estimate.mean == pytest.approx(0.6, abs=0.05)


def test_many_long_curves_take_less_than_a_second() -> None:
    rng = np.random.default_rng(0)
    trials = [
        trial(n, list(np.cumsum(rng.random(10 + n % 190))), "pruned" if n % 4 else "complete")
        for n in range(3000)
    ]
    assert len({step for each in trials for step in each.steps}) > STAGES
    start = time.process_time()
    assert len(final_estimates(trials, NOISE)) == 3000
    assert time.process_time() - start < 1.0
