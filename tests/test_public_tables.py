"""The benchmark on public tables: its regrets, its clock and its statistics."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from curve_table import WORST_REGRET, CurveTable, SmoothTable, best_so_far, normalised_regrets
from public_report import compare, holm, mean_ranks, times_to
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


def smooth(width: float) -> SmoothTable:
    """The line, looked up between its rows."""

    def weights(x_M: Any) -> Any:
        weight_MK = np.exp(-0.5 * ((np.asarray(x_M)[:, None] - np.arange(40)) / width) ** 2)
        return weight_MK / weight_MK.sum(axis=1, keepdims=True)

    return SmoothTable.of(table(), lambda values: weights([values["x"]])[0], weights(np.arange(40)), "smooth")


def test_a_smooth_lookup_keeps_the_scores_of_its_rows_where_ranks_agree() -> None:
    narrow, exact = smooth(0.01), table()
    for x in (1, 7, 30, 39):
        assert narrow.curve({"x": x}, 0) == exact.curve({"x": x}, 0)
        assert narrow.regret({"x": x}) == pytest.approx(exact.regret({"x": x}))
    assert narrow.regret({"x": 0}) == WORST_REGRET


def test_a_smooth_lookup_changes_gradually_and_keeps_the_distribution() -> None:
    wide = smooth(1.5)
    ends = [wide.curve({"x": x}, 0)[0][-1] for x in np.arange(4, 39.01, 0.1)]
    assert np.abs(np.diff(ends)).max() < 0.7  # the nearest row would jump by 1
    assert np.argmax(ends) * 0.1 + 4 == pytest.approx(30, abs=1)
    rows = [wide.curve({"x": x}, 0)[0][-1] for x in range(40)]
    finite = [score for score in rows if math.isfinite(score)]
    recorded = table().score_KRT[1:, 0, -1]
    assert sorted(finite) == pytest.approx(sorted(recorded)[-len(finite) :], abs=1.01)


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


def test_only_searches_that_all_methods_have_are_compared() -> None:
    low, high = np.full(40, 0.1), np.full(40, 0.9)
    curves = {
        "ours": {"t": {0: low, 1: low}, "u": {0: low}},
        "stock-ray": {"t": {0: high, 2: low}, "u": {0: low, 1: high}},
    }
    result = compare(curves, "ours")
    assert result["searches"] == {"ours": 2, "stock-ray": 2}
    assert result["regret"]["stock-ray"] == [0.5] * 5
    by_target = {row["target"]: row["met"] for row in result["targets"]}
    assert by_target["best mean rank at 25%"]
    assert not by_target["quality of stock-ray in 1/3 of its time"]  # on u both have it at once
