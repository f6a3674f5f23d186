"""The four promises of a check's statistics, tried on checks whose truth is known. Figures over a whole grid:
benchmarks/simulated_checks.py.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from simulated_check import Truth, draw

from dmltune.check.comparison import Comparison, compare
from dmltune.check.statistics import best_of_n, mean_interval

COMMON = Truth(fold=0.8, seed=0.5)  # what both configurations share makes 69 % of a single model's variance
ALIKE = {
    "4 folds × 3 repeats": COMMON,
    "4 folds × 2 repeats": replace(COMMON, repeats=2),
    "folds do not matter": replace(COMMON, fold=0.0),
    "classes make the noise": replace(COMMON, mood=6.0),
    "unequal classes": replace(COMMON, unequal=1.0, mood=3.0),
}
DIFFERENT = {
    "4 folds × 3 repeats": COMMON,
    "folds take sides a little": replace(COMMON, interaction=0.25),
    "folds take sides as much as seeds": replace(COMMON, interaction=0.5, repeats=2),
    "folds take sides": replace(COMMON, interaction=2.0),
    "classes take sides": replace(COMMON, preference=4.0, unequal=0.7),
    "all of it": replace(COMMON, interaction=0.4, preference=3.0, mood=3.0, unequal=0.7),
}


def checks(truth: Truth, gap: float, n: int) -> list[Comparison]:
    random = np.random.default_rng(1)
    drawn = [draw(truth, gap, random) for _ in range(n)]
    return [
        compare(d.ours_MQ, d.base_MQ, d.class_Q, d.fold_M, draws=500, seed=i) for i, d in enumerate(drawn)
    ]


@pytest.mark.parametrize("name", ALIKE)
def test_of_400_checks_of_equal_configurations_few_call_them_different(name: str) -> None:
    different = sum(c.p < 0.05 for c in checks(ALIKE[name], 0.0, 400))
    assert different <= 0.05 * 400 + 2 * (400 * 0.05 * 0.95) ** 0.5


@pytest.mark.parametrize("name", DIFFERENT)
def test_the_interval_of_the_difference_covers_the_truth(name: str) -> None:
    covered = np.mean([c.low <= 1.0 <= c.high for c in checks(DIFFERENT[name], 1.0, 800)])
    assert 0.93 - 0.018 <= covered <= 0.97 + 0.012  # two standard errors of 800 draws


@pytest.mark.parametrize("fold", [0.0, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("repeats", [2, 3])
def test_the_interval_of_a_mean_covers_the_truth_whatever_folds_do(fold: float, repeats: int) -> None:
    random, fold_M = np.random.default_rng(2), np.repeat(np.arange(4), repeats)
    drawn = fold * random.normal(size=(2000, 4))[:, fold_M] + random.normal(size=(2000, 4 * repeats))
    intervals = [mean_interval(scores, fold_M) for scores in drawn]
    covered = np.mean([i.low <= 0 <= i.high for i in intervals])
    assert 0.93 - 0.011 <= covered <= 0.97 + 0.008


def test_a_gap_of_one_sd_is_found_four_times_in_five_when_pairs_share_most_of_it() -> None:
    found = [c.p < 0.05 for c in checks(COMMON, COMMON.sd_of_a_model(), 400)]
    assert np.mean(found) >= 0.8


@pytest.mark.parametrize("n", [6, 12, 40])
@pytest.mark.parametrize("shape", ["alike", "normal", "wide", "tail of bad trials", "plateau and cliff"])
def test_the_correction_removes_four_fifths_of_the_winners_bias(n: int, shape: str) -> None:
    random, before, after, draws = np.random.default_rng(3), [], [], 200
    for _ in range(draws):
        truth = {
            "alike": np.zeros(n),
            "normal": random.normal(size=n),
            "wide": 2 * random.normal(size=n),
            "tail of bad trials": -random.exponential(2.0, n),
            "plateau and cliff": np.where(random.random(n) < 0.6, 0.3 * random.normal(size=n), -3.0),
        }[shape]
        scores = truth + random.normal(size=n)
        best = int(scores.argmax())
        before.append(scores[best] - truth[best])
        after.append(best_of_n(scores, 1.0, best).corrected - truth[best])
    assert abs(np.mean(after)) <= 0.2 * np.mean(before) + np.std(after) / draws**0.5
