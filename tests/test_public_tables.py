"""The benchmark on public tables: its regrets, its clock and its statistics."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from curve_table import WORST_REGRET, CurveTable, best_so_far, normalised_regrets
from public_report import holm, mean_ranks, times_to
from rival_searches import RIVALS, best_at, make_rival, run
from scipy import stats

NAN = math.nan


def table(steps: int = 9) -> CurveTable:
    """Forty rows on a line, the best at 30; row 0 diverges."""
    quality = -np.abs(np.arange(40) - 30.0)
    scores = quality[:, None, None] + np.arange(steps) / steps
    scores[0, 0, steps // 2 :] = NAN
    return CurveTable("line", {"x": {"int": [0, 39]}}, best_so_far(scores), lambda values: int(values["x"]))


def test_regret_is_0_for_the_best_1_for_the_median_and_the_worst_for_the_diverged() -> None:
    final = np.array([[1.0, 3.0], [0.0, 2.0], [-1.0, 1.0], [NAN, 5.0], [-100.0, -100.0], [1.0, 2.0]])
    assert normalised_regrets(final).tolist() == pytest.approx([0, 1, 2, WORST_REGRET, WORST_REGRET, 0.5])


def test_best_so_far_never_falls_and_stays_diverged() -> None:
    scores = np.array([[[1.0, 0.0, 2.0], [3.0, NAN, 4.0]]])
    expected = np.array([[[1.0, 1.0, 2.0], [3.0, NAN, NAN]]])
    np.testing.assert_array_equal(best_so_far(scores), expected)


@pytest.mark.parametrize("name", RIVALS)
def test_a_search_uses_its_workers_at_each_second_and_chooses_the_best_score(name: str) -> None:
    lines = table()
    events = run(make_rival(name, lines, 1, 4), lines, workers=3, seconds=12, seed=0)
    at = {second: [e for e in events if e[0] == second] for second in range(1, 13)}
    assert all(len(each) <= 3 for each in at.values())
    assert len(events) >= 33  # row 0 alone yields no score
    best = best_at(events, 5)
    assert best is not None
    assert max(score for time, _, _, score in events if time <= 5) in lines.score_KRT[int(best["x"])]


@pytest.mark.parametrize("seed", range(5))
def test_holm_rejects_what_the_closed_test_of_bonferroni_rejects(seed: int) -> None:
    p = np.random.default_rng(seed).uniform(0, 0.2, 4).tolist()
    for index, adjusted in enumerate(holm(p)):
        sets = [s for n in range(1, 5) for s in itertools.combinations(range(4), n) if index in s]
        assert adjusted == pytest.approx(max(min(1.0, len(s) * min(p[i] for i in s)) for s in sets))


def test_ranks_share_ties() -> None:
    regrets = {"a": {"t": np.zeros(4)}, "b": {"t": np.ones(4)}, "c": {"t": np.zeros(4)}}
    assert {m: ranks[0] for m, ranks in mean_ranks(regrets).items()} == {"a": 1.5, "b": 3.0, "c": 1.5}
    assert stats.rankdata([0, 1, 0]).tolist() == [1.5, 3.0, 1.5]


def test_the_time_to_a_quality_is_a_share_of_the_time_that_the_other_needed() -> None:
    stock = {"t": np.array([0.9, 0.8, 0.5, 0.5]), "u": np.array([0.9, 0.8, 0.5, 0.3])}
    ours = {"t": np.array([0.5, 0.4, 0.4, 0.4]), "u": np.array([0.6, 0.6, 0.6, 0.6])}
    times = times_to(ours, stock)
    assert times["tables"] == {"t": 0.333, "u": None}
    assert times["median_of_its_time"] is None
