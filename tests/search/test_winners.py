"""Winner, winner set, and intervals that account for the winner's having been chosen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmltune.search.beliefs import _posterior, beliefs
from dmltune.search.design import design_of, pooled_noise
from dmltune.search.engine_trial import EngineTrial
from dmltune.search.population import Population
from dmltune.search.score_table import ScoreTable
from dmltune.search.winners import judge


def table_of(rows: dict[int, list[float]], baseline: int | None = None) -> ScoreTable:
    """Return a table in which the scores of a row have the seeds 0, 1, 2, …"""
    table = ScoreTable(baseline)
    for candidate, scores in rows.items():
        for seed, score in enumerate(scores):
            table.add(candidate, (seed, 0), score)
    return table


def searched(means: np.ndarray, rng: np.random.Generator, repeated: int = 5, scores: int = 4) -> ScoreTable:
    """Return a search with noise 1 in which the candidates with the highest first scores were repeated."""
    first = means + rng.normal(size=len(means))
    rows = {i: [float(score)] for i, score in enumerate(first)}
    for i in np.argsort(-first)[:repeated]:
        rows[int(i)] += (means[i] + rng.normal(size=scores - 1)).tolist()
    return table_of(rows)


def test_a_table_of_trials_holds_complete_ones_under_their_configuration() -> None:
    def trial(number: int, role: str, score: float, **more: object) -> EngineTrial:
        made = EngineTrial(number, role, {}, state="complete", **more)  # type: ignore[arg-type]
        made.add(1, score)
        return made

    pruned = trial(5, "search", 9.0)
    pruned.state = "pruned"
    trials = [
        trial(0, "reference", 1.0),
        trial(1, "baseline", 2.0),
        trial(2, "search", 3.0),
        trial(3, "repeat", 4.0, repeats=2, seed=7),
        trial(4, "repeat", 5.0, repeats=1, fold=1),
        pruned,
        trial(6, "search", float("-inf")),
    ]
    table = ScoreTable.of(trials)
    assert table.baseline == 1
    assert table.candidates == [0, 2]
    assert table.scores(2) == {(0, 0): 3.0, (7, 0): 4.0}
    assert table.scores(1) == {(0, 0): 2.0, (0, 1): 5.0}
    assert table.blocks == [(0, 0), (0, 1), (7, 0)]
    assert table.count(5) == 0


def test_without_repetitions_the_best_score_wins_and_nothing_is_claimed() -> None:
    verdict = judge(table_of({3: [1.0], 4: [2.5], 5: [2.0]}))
    assert verdict is not None
    assert (verdict.winner, verdict.winner_set) == (4, (4,))
    assert (verdict.noise, verdict.noise_degrees) == (None, 0)
    assert (verdict.corrected, verdict.lead, verdict.lead_is_noise) == (None, None, None)
    assert judge(ScoreTable()) is None
    assert judge(table_of({1: [3.0]}, baseline=1)) is None


def test_deterministic_training_makes_the_set_of_exact_ties() -> None:
    verdict = judge(table_of({0: [1.0] * 3, 1: [2.0], 2: [2.0], 3: [1.999], 9: [1.5]}, baseline=9))
    assert verdict is not None
    assert verdict.winner_set == (1, 2)
    assert verdict.noise == 0
    assert verdict.corrected is not None
    assert (verdict.corrected.low, verdict.corrected.high) == (2.0, 2.0)
    assert verdict.lead is not None
    assert (verdict.lead.mean, verdict.lead_is_noise) == (0.5, False)


def test_good_configurations_at_a_limit_are_not_deterministic() -> None:
    """Two scores at the limit agree, but the repeated reference shows that training is noisy."""
    rows = {0: [1.0, 2.0, 1.4], 1: [9.0, 9.0], 2: [9.0], **{i: [8.0 + i / 10] for i in range(3, 9)}}
    verdict = judge(table_of(rows))
    assert verdict is not None
    assert verdict.noise is not None
    assert verdict.noise > 0
    assert len(verdict.winner_set) > 2


@pytest.mark.parametrize("equal", [{1: [9.0, 9.0, 9.0], 2: [9.0]}, {0: [-70.0] * 3}, {1: [9.0, 9.0]}])
def test_equal_scores_at_a_limit_or_of_a_collapsed_reference_tell_nothing(
    equal: dict[int, list[float]],
) -> None:
    rows = {i: [8.0 + i / 10] for i in range(9)} | equal
    verdict = judge(table_of(rows))
    assert verdict is not None
    assert verdict.noise is None
    assert verdict.corrected is None


def test_pooled_noise_is_that_of_a_regression_on_candidates_and_folds() -> None:
    rng = np.random.default_rng(0)
    table = ScoreTable()
    for candidate in range(6):
        for seed in range(2):
            for fold in range(3):
                table.add(candidate, (seed, fold), candidate + 10 * fold + rng.normal())
    table.add(7, (0, 0), 100.0)
    rows = [(c, b[1], s) for c in range(6) for b, s in table.scores(c).items()]  # type: ignore[index]
    dummies = np.array(
        [[float(c == i) for i in range(6)] + [float(f == j) for j in (1, 2)] for c, f, _ in rows]
    )
    scores = np.array([s for _, _, s in rows])
    rest = scores - dummies @ np.linalg.lstsq(dummies, scores, rcond=None)[0]
    noise, degrees = pooled_noise(design_of(table))
    assert degrees == 36 - 6 - 2
    assert noise == pytest.approx(np.sqrt((rest**2).sum() / degrees))


def test_given_the_hyperparameters_the_beliefs_are_those_of_the_full_normal_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The oracle conditions one joint normal distribution of all means, effects and scores."""
    monkeypatch.setattr("dmltune.search.beliefs._WIDE", 1.0)  # one normal population
    rng = np.random.default_rng(5)
    table = ScoreTable()
    for candidate in range(5):  # fewer than 8: no candidate is censored
        for seed, fold in ((0, 0), (1, 0), (0, 1), (2, 0))[: 1 + candidate % 4 + (candidate == 4) * 2]:
            table.add(candidate, (seed, fold), rng.normal() + 3 * fold + 0.3 * seed)
    design = design_of(table)
    belief = beliefs(design, noise=0.5)
    assert belief is not None
    sigma, tau, s = 0.5, 0.8, 0.3
    population = Population(design)
    solution = population.solve(np.array([[sigma, tau, s]]))
    # The oracle. The flat prior of m is a very wide one; columns: means, effects.
    n, effects = len(design.candidates), design.columns.shape[1]
    free = 10 * float(np.ptp(design.scores))
    prior = np.zeros((n + effects, n + effects))
    prior[:n, :n] = tau**2 * np.eye(n) + 1e4
    prior[n:, n:] = np.diag(np.where(design.is_fold, free**2, s**2))
    x = np.hstack([np.eye(n)[design.owner], design.columns])
    gain = prior @ x.T @ np.linalg.inv(x @ prior @ x.T + sigma**2 * np.eye(len(design.scores)))
    y = design.scores - population.offset
    np.testing.assert_allclose(solution.psi[0, 1:], (gain @ y)[n:], atol=1e-3)
    exact = _posterior(population, np.array([[sigma, tau, s]]), np.ones(1), solution)
    np.testing.assert_allclose(exact.expected - population.offset, (gain @ y)[:n], atol=1e-3)
    posterior = prior - gain @ x @ prior
    for i in range(1, n):
        oracle = posterior[i, i] + posterior[0, 0] - 2 * posterior[i, 0]
        assert exact.difference(i, 0).variances[0] == pytest.approx(oracle, rel=1e-3)


def test_the_weights_of_the_grid_are_the_marginal_likelihood() -> None:
    """Ratios of weights equal ratios of the normal density of all scores with a very wide prior of m."""
    rng = np.random.default_rng(6)
    table = table_of({i: rng.normal(size=1 + i % 3).tolist() for i in range(7)})
    design = design_of(table)
    population = Population(design)
    grid = np.array([[0.5, 0.2, 0.1], [0.5, 1.0, 0.4], [1.2, 0.3, 1.0], [0.3, 2.0, 0.03]])
    densities = []
    for sigma, tau, s in grid:
        same = np.equal.outer(design.owner, design.owner)
        wide = 1e6
        cover = sigma**2 * np.eye(len(design.scores)) + tau**2 * same + wide
        cover += s**2 * design.columns @ design.columns.T
        y = design.scores
        densities.append(-0.5 * y @ np.linalg.solve(cover, y) - 0.5 * np.linalg.slogdet(cover)[1])
    weights = population.solve(grid).log_weights
    np.testing.assert_allclose(np.diff(weights), np.diff(densities), atol=1e-3)


def test_the_interval_of_a_chosen_winner_covers_its_true_mean() -> None:
    rng = np.random.default_rng(7)
    hits, naive, count = 0, 0.0, 250
    for _ in range(count):
        means = rng.normal(size=40)
        table = searched(means, rng)
        verdict = judge(table)
        assert verdict is not None
        assert verdict.corrected is not None
        hits += verdict.corrected.low <= means[verdict.winner] <= verdict.corrected.high
        naive += table.mean(verdict.winner) - verdict.corrected.mean
    assert 0.91 <= hits / count <= 0.99
    assert naive / count > 0.1  # the plain mean of a chosen configuration is too high


def test_a_rare_good_configuration_that_was_repeated_is_hardly_shrunk() -> None:
    rng = np.random.default_rng(12)
    first = rng.normal(size=30)
    rows = {i: (score + 0.5 * rng.normal(size=1 + 2 * (i < 4))).tolist() for i, score in enumerate(first)}
    verdict = judge(table_of(rows | {30: [9.8, 10.0, 10.2]}))
    assert verdict is not None
    assert verdict.winner == 30
    assert verdict.corrected is not None
    assert verdict.corrected.mean == pytest.approx(10.0, abs=0.15)


def test_twenty_equal_configurations_are_all_in_the_set() -> None:
    rng = np.random.default_rng(8)
    whole = [judge(searched(np.zeros(20), rng)) for _ in range(120)]
    assert np.mean([v is not None and len(v.winner_set) == 20 for v in whole]) >= 0.9


def test_a_clear_loser_leaves_the_set_and_the_best_stays() -> None:
    rng = np.random.default_rng(9)
    means = np.array([0.0] * 6 + [-12.0] * 6 + [-40.0] * 8)
    stayed = []
    for _ in range(30):
        verdict = judge(searched(means, rng, scores=5))
        assert verdict is not None
        assert max(verdict.winner_set) < 6
        stayed.append(len(verdict.winner_set) / 6)
    assert np.mean(stayed) > 0.95


def test_the_lead_over_the_baseline_covers_the_truth_and_knows_noise() -> None:
    rng = np.random.default_rng(10)
    hits, noise = [], []
    for _ in range(150):
        means = rng.normal(size=25)
        table = searched(means, rng)
        baseline = ScoreTable(baseline=99)
        for candidate in table.candidates:
            for block, score in table.scores(candidate).items():
                baseline.add(candidate, block, score)
        for seed in range(4):
            baseline.add(99, (seed, 0), 1.5 + rng.normal())
        verdict = judge(baseline)
        assert verdict is not None
        assert verdict.lead is not None
        assert 99 not in verdict.winner_set
        hits.append(verdict.lead.low <= means[verdict.winner] - 1.5 <= verdict.lead.high)
        noise.append(verdict.lead_is_noise)
    assert np.mean(hits) > 0.9
    assert np.mean(noise) > 0.7


def test_a_seed_that_is_good_for_all_does_not_make_a_winner() -> None:
    """Candidate 1 has the higher mean only because it was repeated on the better seed."""
    rng = np.random.default_rng(11)
    table = ScoreTable()
    for i in range(10):
        table.add(i, (0, 0), (i == 0) * 1.0 - (i > 1) * 2.0 + 0.1 * rng.normal())
    for i in (0, 1, 2, 3):
        table.add(i, (1, 0), (i == 0) * 1.0 - (i > 1) * 2.0 + 5.0 + 0.1 * rng.normal())
    for i in (1, 2, 3):
        table.add(i, (2, 0), -(i > 1) * 2.0 + 9.0 + 0.1 * rng.normal())
    verdict = judge(table)
    assert verdict is not None
    assert verdict.winner == 0
    assert verdict.winner_set == (0,)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), shift=st.floats(-100, 100), scale=st.sampled_from([0.01, 1.0, 30.0]))
def test_units_do_not_matter(seed: int, shift: float, scale: float) -> None:
    rng = np.random.default_rng(seed)
    rows = {i: rng.normal(size=1 + (i < 3) * 2).tolist() for i in range(12)}
    one = judge(table_of(rows))
    two = judge(table_of({i: [shift + scale * s for s in row] for i, row in rows.items()}))
    assert one is not None
    assert two is not None
    assert (one.winner, one.winner_set) == (two.winner, two.winner_set)
    assert one.corrected is not None
    assert two.corrected is not None
    assert two.corrected.low == pytest.approx(shift + scale * one.corrected.low, abs=1e-6 * (1 + scale))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_scores_give_a_verdict(data: st.DataObject) -> None:
    """Diverged trials, ties and extreme outliers included."""
    score = st.one_of(st.floats(-1e9, 1e9), st.sampled_from([0.0, 1.0, 1.0 + 1e-9, -1e15]), st.floats(0, 1))
    rows = data.draw(st.dictionaries(st.integers(0, 30), st.lists(score, min_size=1, max_size=4), min_size=1))
    verdict = judge(table_of(rows, baseline=7))
    assert (verdict is None) == (set(rows) == {7})
    if verdict is not None:
        assert verdict.winner == verdict.winner_set[0]
        assert set(verdict.winner_set) <= set(rows) - {7}
        if verdict.corrected is not None:
            assert verdict.corrected.low <= verdict.corrected.mean <= verdict.corrected.high
