"""Races of folds: how often equal trials are dropped, and what is saved."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dmltune.search.fold_race import bounds, drop, fold_noise, information, maximum, near_best, share_dropped


def races(k: int, gap: float, degrees: float, rows: int = 1, number: int = 4000) -> tuple[float, float]:
    """Return the share of dropped trials and of saved trainings; fold effects are large, noise is 1."""
    rng = np.random.default_rng(k)
    dropped = saved = 0
    for _ in range(number):
        folds = 10 * rng.normal(size=k)
        own, complete = folds + rng.normal(size=k) - gap, folds + rng.normal(size=(rows, k))
        noise = 1.0 if degrees == np.inf else float(np.sqrt(rng.chisquare(degrees) / degrees))
        for j in range(1, k):
            if drop(own[:j], complete, noise, degrees=degrees):
                dropped, saved = dropped + 1, saved + k - j
                break
    return dropped / number, saved / (k * number)


@pytest.mark.parametrize(("k", "degrees"), [*itertools.product((2, 3, 5), (np.inf, 8))])
def test_an_equal_trial_is_dropped_in_at_most_one_of_twenty_races(k: int, degrees: float) -> None:
    assert races(k, 0.0, degrees)[0] < 0.05 + 2.5 * np.sqrt(0.05 * 0.95 / 4000)


@pytest.mark.parametrize("degrees", [np.inf, 20])
def test_two_fifths_of_the_trainings_are_saved_at_a_gap_of_two_standard_deviations(degrees: float) -> None:
    assert races(5, 2.0, degrees)[1] > 0.40


@pytest.mark.parametrize("rows", [2, 5, 30])
@pytest.mark.parametrize("k", [3, 5])
def test_an_equal_trial_is_seldom_dropped_by_an_incumbent_that_was_chosen(k: int, rows: int) -> None:
    assert races(k, 0.0, np.inf, rows, 2000)[0] < 0.05 + 2.5 * np.sqrt(0.05 * 0.95 / 2000)


@pytest.mark.parametrize("k", [3, 5])
def test_more_rows_tell_how_hard_the_folds_are_and_save_trainings(k: int) -> None:
    assert races(k, 2.0, np.inf, rows=20)[1] > races(k, 2.0, np.inf)[1] + 0.03


@pytest.mark.parametrize(("k", "rows"), [(3, 1), (3, 4), (5, 2)])
def test_the_information_is_that_of_least_squares(k: int, rows: int) -> None:
    """Var of the contrast trial − incumbent in the model configuration + fold, by the normal equations."""
    for j in range(1, k):
        cells = [(row, fold) for row in range(rows) for fold in range(k)]
        cells += [(rows, fold) for fold in range(j)]
        design = np.zeros((len(cells), rows + 1 + k))
        for at, (row, fold) in enumerate(cells):
            design[at, row] = design[at, rows + 1 + fold] = 1.0
        contrast = np.zeros(rows + 1 + k)
        contrast[rows], contrast[0] = 1.0, -1.0
        variance = contrast @ np.linalg.pinv(design.T @ design) @ contrast
        assert information(k, rows)[j - 1] == pytest.approx(1 / variance)


def test_the_maximum_is_that_of_drawn_variables() -> None:
    draws = np.random.default_rng(0).normal(size=(100_000, 12))
    for number in (1, 2, 5, 12):
        highest = draws[:, :number].max(axis=1)
        assert maximum(number) == pytest.approx((highest.mean(), highest.var()), abs=0.02)


def test_only_rows_near_the_best_are_compared_with() -> None:
    assert len(near_best(np.array([[0.0, 1.0], [0.3, 0.6], [-9.0, -9.0]]), 1.0)) == 2
    assert len(near_best(np.array([[0.0, 1.0]]), 1.0)) == 1


def test_the_bounds_are_those_of_a_simulated_random_walk() -> None:
    steps = np.random.default_rng(0).normal(size=(200_000, 4)) - 0.3
    z = np.cumsum(steps, axis=1) / np.sqrt(np.arange(1, 5))
    times = (1.0, 2.0, 3.0, 4.0)
    limits = np.array(bounds(times))
    simulated = [float((z[:, :j] < -limits[:j]).any(axis=1).mean()) for j in range(1, 5)]
    np.testing.assert_allclose(share_dropped(limits, times, gap=0.3), simulated, atol=0.003)


@pytest.mark.parametrize("k", [2, 3, 5, 10])
def test_an_equal_trial_is_dropped_exactly_as_often_as_allowed(k: int) -> None:
    for times in (information(k), information(k, 7)):
        assert share_dropped(np.array(bounds(times)), times)[-1] == pytest.approx(0.05, abs=1e-6)


def test_a_fold_that_is_hard_for_all_does_not_matter() -> None:
    own, row, hard = np.array([50.0, 50.2]), np.array([50.3, 50.1, 50.5]), np.array([0.0, 30.0, 70.0])
    for noise in (0.05, 0.1, 1.0):
        assert drop(own, [row], noise) == drop(own - hard[:2], [row - hard], noise)


@pytest.mark.parametrize(("k", "rows"), [(3, 2), (3, 3), (5, 3), (3, 10)])
def test_an_equal_trial_is_seldom_dropped_when_the_rows_tell_the_noise(k: int, rows: int) -> None:
    rng = np.random.default_rng([k, rows])
    dropped = 0
    for _ in range(2000):
        folds = 3 * rng.normal(size=k)
        complete, own = folds + rng.normal(size=(rows, k)), folds + rng.normal(size=k)
        for j in range(1, k):
            partial = np.where(np.arange(k) < j, own, np.nan)
            noise, degrees = fold_noise(np.vstack([complete, partial]).tolist())
            if drop(own[:j].tolist(), complete.tolist(), noise, degrees=degrees):
                dropped += 1
                break
    assert dropped / 2000 < 0.05 + 2.5 * np.sqrt(0.05 * 0.95 / 2000)


def test_nothing_is_dropped_without_knowledge_or_after_the_last_fold() -> None:
    best = [[100.0, 100.0, 100.0]]
    assert drop([0.0], best, 1.0)
    assert not drop([0.0], best, None)
    assert not drop([0.0], best, 1.0, degrees=0)
    assert not drop([0.0, 0.0, 0.0], best, 1.0)
    assert not drop([], best, 1.0)
    assert not drop([100.0], [[0.0, 0.0, 0.0]], 1.0)


def test_fewer_degrees_of_freedom_make_it_harder_to_drop() -> None:
    assert drop([0.0], [[3.5, 3.5, 3.5]], 1.0)
    assert not drop([0.0], [[3.5, 3.5, 3.5]], 1.0, degrees=2)


def test_the_noise_of_folds_leaves_out_the_means_of_rows_and_folds() -> None:
    rng = np.random.default_rng(3)
    scores = 0.7 * rng.normal(size=(400, 5)) + 9 * rng.normal(size=(400, 1)) + 20 * rng.normal(size=5)
    noise, degrees = fold_noise(scores.tolist())
    assert noise == pytest.approx(0.7, rel=0.05)
    assert degrees == 399 * 4
    assert fold_noise([[1.0, 2.0]]) == (None, 0)
    assert fold_noise([]) == (None, 0)


def test_the_noise_of_folds_uses_configurations_that_have_not_all_folds() -> None:
    rng = np.random.default_rng(3)
    scores = 0.7 * rng.normal(size=(400, 5)) + 9 * rng.normal(size=(400, 1)) + 20 * rng.normal(size=5)
    scores[200:, 2:] = np.nan  # dropped after two folds
    scores[399, 1:] = np.nan  # one score alone tells nothing
    noise, degrees = fold_noise(scores.tolist())
    assert noise == pytest.approx(0.7, rel=0.07)
    assert degrees == 199 * 4 + 199
    assert fold_noise(scores[:399].tolist()) == pytest.approx((noise, degrees))
