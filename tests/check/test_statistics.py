"""Intervals, comparisons and corrections against slow oracles, and what they say where little is known."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from dataclasses import asdict

import numpy as np
import pytest
from scipy import stats
from simulated_check import Truth, draw

from dmltune.check.comparison import compare, compare_scores, holm
from dmltune.check.statistics import best_of_n, cluster_variance, mean_interval
from dmltune.errors import UserError

FOLD_M = np.repeat(np.arange(4), 3)


def an_example(seed: int = 0, **truth: float):  # type: ignore[no-untyped-def]
    return draw(Truth(unequal=0.5, preference=2.0, **truth), 1.0, np.random.default_rng(seed))  # type: ignore[arg-type]


def test_one_repeat_gives_the_t_interval_over_folds() -> None:
    scores = np.array([0.41, 0.47, 0.40, 0.44])
    ours = mean_interval(scores, [0, 1, 2, 3])
    theirs = stats.ttest_1samp(scores, 0).confidence_interval(0.95)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), rel=1e-12)
    assert ours.df == pytest.approx(3)
    assert ours.sd == pytest.approx(scores.std(ddof=1))


def test_two_folds_or_folds_that_plainly_matter_give_the_t_interval_over_fold_means() -> None:
    random = np.random.default_rng(0)
    for folds, spread in ((2, 0.0), (4, 100.0)):
        fold_M = np.repeat(np.arange(folds), 3)
        scores = spread * fold_M + random.normal(size=len(fold_M))
        ours = mean_interval(scores, fold_M)
        theirs = stats.ttest_1samp(scores.reshape(folds, 3).mean(axis=1), 0).confidence_interval(0.95)
        assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), rel=1e-6)


def test_seeds_add_degrees_of_freedom_only_while_folds_do_not_show() -> None:
    seeds = np.tile([-1.0, 0.0, 1.0], 4)
    assert mean_interval(seeds, FOLD_M).df == pytest.approx(
        3 + 8 / 3
    )  # w = 1 · 2/(3·2) of the 8 within folds
    assert mean_interval(seeds + 9.0 * FOLD_M, FOLD_M).df == pytest.approx(3, abs=1e-3)


def test_a_lost_model_leaves_a_finite_interval_near_the_old_one() -> None:
    random = np.random.default_rng(1)
    scores = random.normal(size=12)
    whole, lost = mean_interval(scores, FOLD_M), mean_interval(scores[:-1], FOLD_M[:-1])
    assert 2 < lost.df < whole.df + 1
    assert 0.4 < (lost.high - lost.low) / (whole.high - whole.low) < 2.5


def test_the_interval_moves_and_stretches_with_the_scores() -> None:
    scores = np.random.default_rng(2).normal(size=12)
    here, there = mean_interval(scores, FOLD_M), mean_interval(3 - 2 * scores, FOLD_M)
    assert (there.low, there.high) == pytest.approx((3 - 2 * here.high, 3 - 2 * here.low))
    wider = mean_interval(scores, FOLD_M, level=0.99)
    assert wider.low < here.low < here.high < wider.high


def test_one_model_has_no_interval_and_one_fold_one_over_its_seeds() -> None:
    alone = mean_interval([0.5], [0])
    assert alone.mean == 0.5
    assert all(math.isnan(x) for x in (alone.low, alone.high, alone.sd))
    seeds = mean_interval([0.4, 0.5, 0.7], [2, 2, 2])
    theirs = stats.ttest_1samp([0.4, 0.5, 0.7], 0).confidence_interval(0.95)
    assert (seeds.low, seeds.high) == pytest.approx((theirs.low, theirs.high))


def test_equal_scores_have_an_interval_of_no_width() -> None:
    same = mean_interval([0.25] * 12, FOLD_M)
    assert (same.low, same.mean, same.high, same.sd) == (0.25, 0.25, 0.25, 0.0)


@pytest.mark.parametrize("scores", [[0.1, math.nan], [], [[0.1, 0.2]]])
def test_scores_that_are_no_scores_are_refused(scores: list[float]) -> None:
    with pytest.raises(UserError, match="every"):
        mean_interval(scores, [0] * len(scores))


def test_cluster_variance_is_the_matrix_formula_and_unbiased() -> None:
    random = np.random.default_rng(3)
    count_C = random.integers(1, 30, size=9)
    w, r = count_C / count_C.sum(), random.normal(size=9)
    residual = r - w @ r
    centre = np.eye(9) - np.outer(np.ones(9), w)
    a = np.diag(w**2) @ centre @ centre.T
    variance, df = cluster_variance(w, residual)
    assert df == pytest.approx(np.trace(a) ** 2 / np.trace(a @ a))
    assert variance == pytest.approx(sum(w**2 * residual**2) * sum(w**2) / np.trace(a))
    assert cluster_variance(np.full(7, 1 / 7), residual[:7])[1] == pytest.approx(6)
    drawn = random.normal(size=(20_000, 9))
    mean = np.mean([cluster_variance(w, x - w @ x)[0] for x in drawn])
    assert mean == pytest.approx(sum(w**2), rel=0.03)


def test_the_comparison_is_the_mean_over_queries_and_turns_its_sign_when_sides_are_swapped() -> None:
    d = an_example()
    there = compare(d.ours_MQ, d.base_MQ, d.class_Q, d.fold_M)
    back = compare(d.base_MQ, d.ours_MQ, d.class_Q, d.fold_M)
    assert there.difference == pytest.approx((d.ours_MQ - d.base_MQ).mean())
    assert (back.low, back.high) == pytest.approx((-there.high, -there.low))
    assert back.p == pytest.approx(there.p)
    assert back.effect_size == pytest.approx(-there.effect_size)
    assert back.wins == pytest.approx(1 - there.wins)
    assert (there.models, there.classes) == (12, 40)


def test_the_order_of_queries_and_the_names_of_classes_do_not_matter() -> None:
    d = an_example()
    order = np.random.default_rng(4).permutation(len(d.class_Q))
    names = np.array([f"class {c:03d}" for c in d.class_Q])
    here = compare(d.ours_MQ, d.base_MQ, d.class_Q, d.fold_M)
    there = compare(d.ours_MQ[:, order], d.base_MQ[:, order], names[order], d.fold_M + 7)
    assert list(asdict(there).values()) == pytest.approx(list(asdict(here).values()), rel=1e-9)


def test_p_is_below_one_minus_level_exactly_when_the_interval_leaves_out_zero() -> None:
    for seed, level in itertools.product(range(20), (0.9, 0.95, 0.99)):
        d = an_example(seed)
        c = compare(d.ours_MQ, d.base_MQ, d.class_Q, d.fold_M, level=level, draws=200)
        assert (c.p < 1 - level) == (c.low > 0 or c.high < 0)


def test_one_model_leaves_the_classes_and_their_spread_is_that_of_class_means() -> None:
    d = an_example(classes=25, queries=2000)
    alone = compare(d.ours_MQ[:1], d.base_MQ[:1], d.class_Q, d.fold_M[:1], draws=20_000)
    gap_Q = (d.ours_MQ - d.base_MQ)[0]
    sizes = np.bincount(d.class_Q)
    mean_C = np.array([gap_Q[d.class_Q == c].mean() for c in range(25)])
    w = sizes / sizes.sum()
    variance, df = cluster_variance(w, mean_C - w @ mean_C)
    assert alone.high - alone.difference == pytest.approx(stats.t.ppf(0.975, df) * variance**0.5, rel=0.06)
    assert alone.models == 1
    assert math.isnan(alone.fold_sd)
    assert math.isnan(alone.seed_sd)
    assert math.isnan(alone.effect_size)


def test_the_sds_find_what_was_drawn() -> None:
    found = []
    for seed in range(200):
        truth = Truth(interaction=1.0, seed=0.5, preference=3.0, mood=0.2, noise=0.2, folds=8, repeats=2)
        d = draw(truth, 0.0, np.random.default_rng(seed))
        c = compare(d.ours_MQ, d.base_MQ, d.class_Q, d.fold_M, draws=300)
        found.append((c.fold_sd**2, c.seed_sd**2, c.class_sd**2))
    assert np.mean(found, axis=0) == pytest.approx([2 * 1.0, 2 * 0.25, 2 * 9.0], rel=0.12)


def test_equal_arrays_differ_by_nothing_with_p_one() -> None:
    d = an_example()
    same = compare(d.ours_MQ, d.ours_MQ, d.class_Q, d.fold_M)
    assert (same.difference, same.low, same.high, same.p, same.wins) == (0.0, 0.0, 0.0, 1.0, 0.5)


def test_a_query_without_a_match_is_as_if_it_were_not_there() -> None:
    d = an_example()
    ours, base = d.ours_MQ.copy(), d.base_MQ.copy()
    ours[:, ::7] = math.nan
    base[:, ::7] = math.nan
    keep = np.arange(ours.shape[1]) % 7 != 0
    left = compare(ours, base, d.class_Q, d.fold_M)
    assert left == compare(d.ours_MQ[:, keep], d.base_MQ[:, keep], d.class_Q[keep], d.fold_M)
    with pytest.raises(UserError, match="no query"):
        compare(ours * math.nan, base, d.class_Q, d.fold_M)


def test_one_class_leaves_the_models_and_says_that_classes_are_not_measured() -> None:
    d = an_example()
    one = compare(d.ours_MQ, d.base_MQ, np.zeros_like(d.class_Q), d.fold_M)
    scores = compare_scores(d.ours_MQ.mean(axis=1), d.base_MQ.mean(axis=1), d.fold_M)
    assert (one.low, one.high, one.p) == pytest.approx((scores.low, scores.high, scores.p))
    assert math.isnan(one.class_sd)
    nothing = compare(d.ours_MQ[:1], d.base_MQ[:1], np.zeros_like(d.class_Q), d.fold_M[:1])
    assert math.isnan(nothing.p)
    assert math.isnan(nothing.low)


def test_paired_scores_give_the_paired_t_test_and_unpaired_ones_welch() -> None:
    random = np.random.default_rng(5)
    ours, base = random.normal(1, 1, 4), random.normal(0, 2, 6)
    paired = compare_scores(ours, base[:4], [0, 1, 2, 3])
    assert paired.p == pytest.approx(stats.ttest_rel(ours, base[:4]).pvalue)
    apart = compare_scores(ours, base, [0, 1, 2, 3], base_fold_M=range(6))
    assert apart.p == pytest.approx(stats.ttest_ind(ours, base, equal_var=False).pvalue)
    assert math.isnan(apart.wins)
    assert math.isnan(compare_scores([0.1], [0.2], [0]).p)


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UserError, match="same models and queries"):
        compare(np.zeros((2, 5)), np.zeros((3, 5)), np.zeros(5), [0, 1])
    with pytest.raises(UserError, match="one score and one fold"):
        compare_scores([0.1, 0.2], [0.1], [0, 1])


def test_holm_is_the_closed_test_of_every_subset() -> None:
    random = np.random.default_rng(6)
    for _ in range(50):
        p = list(random.random(5) ** 3)
        subsets = [s for k in range(1, 6) for s in itertools.combinations(range(5), k)]
        slow = [min(1.0, max(len(s) * min(p[j] for j in s) for s in subsets if i in s)) for i in range(5)]
        assert holm(p) == pytest.approx(slow)
    assert holm([]) == []
    adjusted = holm([0.02, math.nan, 0.03])  # nothing was asked of the one in the middle
    assert adjusted[0] == pytest.approx(0.04)
    assert math.isnan(adjusted[1])


def posterior_mean_by_loops(scores: list[float], noise: float, chosen: int) -> float:
    points = max(80, min(400, int(4 * (max(scores) - min(scores)) / noise)))
    truths = [min(scores) + (max(scores) - min(scores)) * g / (points - 1) for g in range(points)]
    prior = [1 / points] * points
    luck = min(1.0, noise**2 / statistics.variance(scores))
    counts = [1 - luck / 2 if i == chosen else 1.0 for i in range(len(scores))]
    like = [[math.exp(-0.5 * ((y - t) / noise) ** 2) for t in truths] for y in scores]
    for _ in range(100):
        new = [0.0] * points
        for count, row in zip(counts, like, strict=True):
            total = sum(a * b for a, b in zip(row, prior, strict=True))
            new = [n + count * a * b / total for n, a, b in zip(new, row, prior, strict=True)]
        prior = [n / sum(counts) for n in new]
    weights = [a * b for a, b in zip(like[chosen], prior, strict=True)]
    return sum(w * t for w, t in zip(weights, truths, strict=True)) / sum(weights)


def test_the_winner_is_corrected_as_slow_loops_do_it() -> None:
    scores = [0.1, 0.52, 0.48, 0.55, 0.3, 0.56]
    ours = best_of_n(scores, 0.03, 5)
    assert ours.corrected == pytest.approx(posterior_mean_by_loops(scores, 0.03, 5), rel=1e-9)
    assert ours.observed - ours.bias == pytest.approx(ours.corrected)
    assert ours.n == 6


def test_without_noise_or_without_a_choice_nothing_is_corrected() -> None:
    assert best_of_n([0.1, 0.5], 0.0, 1).bias == 0
    assert best_of_n([0.5], 0.1, 0).bias == 0
    assert best_of_n([0.5, 0.5, 0.5], 0.1, 2).bias == 0


def test_the_correction_moves_with_the_scores_and_hears_only_finished_trials() -> None:
    scores = np.random.default_rng(7).normal(size=20)
    here = best_of_n(scores, 0.7, int(scores.argmax()))
    there = best_of_n(3 + 2 * scores, 1.4, int(scores.argmax()))
    assert there.corrected == pytest.approx(3 + 2 * here.corrected)
    unfinished = best_of_n([math.nan, *scores[:5], math.nan, *scores[5:]], 0.7, -20 + int(scores.argmax()))
    assert unfinished.n == 20
    assert best_of_n(np.append(scores, math.nan), 0.7, int(scores.argmax())) == here
    for chosen, noise in ((0, 0.1), (1, math.nan), (1, -0.1)):
        with pytest.raises(UserError, match="must be numbers"):
            best_of_n([math.nan, 0.2, 0.3], noise, chosen)


def test_results_are_json_without_help() -> None:
    d = an_example()
    results = (
        mean_interval(d.ours_MQ.mean(axis=1), d.fold_M),
        compare(d.ours_MQ, d.base_MQ, d.class_Q, d.fold_M),
    )
    for result in (*results, best_of_n([0.1, 0.2], 0.1, 1)):
        assert json.loads(json.dumps(asdict(result))) == asdict(result)
