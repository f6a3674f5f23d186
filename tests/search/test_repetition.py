"""Which configuration is trained again, and on which block."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from dmltune.search.beliefs import beliefs
from dmltune.search.design import SEEDS, design_of
from dmltune.search.repetition import next_block, next_repetition, repetition_values
from dmltune.search.score_table import ScoreTable


def noisy(means: list[float], seed: int = 0, sd: float = 1.0) -> ScoreTable:
    """Return one score for each mean; candidate 0 (the reference) has three."""
    rng = np.random.default_rng(seed)
    table = ScoreTable()
    for i, mean in enumerate(means):
        for s in range(3 if i == 0 else 1):
            table.add(i, (s, 0), mean + sd * rng.normal())
    return table


def test_the_leader_is_repeated_until_the_noise_is_known() -> None:
    table = ScoreTable()
    for i, score in enumerate([1.0, 3.0, 2.0]):
        table.add(i, (5, 0), score)
    seeds = []
    for score in (2.9, 3.2):
        found = next_repetition(table, spare=9)
        assert found is not None
        assert found.candidate == 1
        seeds.append(found.block)
        table.add(1, found.block, score)
    assert seeds == [(6, 0), (7, 0)]
    found = next_repetition(table, spare=9, noise=None)
    assert found is None or found.candidate != 1 or table.count(1) == 3


def test_repetitions_under_way_are_not_begun_again() -> None:
    table = ScoreTable()
    for i, score in enumerate([1.0, 3.0, 2.0]):
        table.add(i, (0, 0), score)
    pending: list[tuple[int, tuple[int, int]]] = []
    for _ in range(4):
        found = next_repetition(table, spare=9, pending=pending)
        assert found is not None
        pending.append((found.candidate, found.block))
    assert pending == [(1, (1, 0)), (1, (2, 0)), (2, (1, 0)), (2, (2, 0))]


def test_the_noise_of_a_bad_reference_is_not_that_of_the_leader() -> None:
    """A configuration that has collapsed scores the same with each seed."""
    table = noisy([float(i) for i in range(10)], sd=1e-9)
    for seed in (0, 1, 2):
        table.add(0, (seed, 0), -70.0)
    found = next_repetition(table, spare=5)
    assert found is not None
    assert found.candidate == 9


def test_deterministic_training_or_an_empty_budget_is_not_repeated() -> None:
    table = noisy([0.0, 0.1, 0.2], sd=0.0)
    assert next_repetition(table, spare=5) is None
    assert next_repetition(noisy([0.0, 0.1, 0.2]), spare=0) is None
    assert next_repetition(ScoreTable(), spare=5) is None
    assert next_repetition(noisy([0.0, 0.1]), spare=5, noise=0.0) is None


def test_a_sure_winner_is_not_repeated() -> None:
    means = [0.0, 5000.0, *([1.0] * 8)]
    assert next_repetition(noisy(means), spare=5, noise=1.0) is None
    assert next_repetition(noisy([0.0] * 10), spare=5, noise=1.0) is not None


def test_candidates_near_the_best_are_repeated_and_bad_ones_never() -> None:
    table = noisy([-30.0, 0.0, 0.1, 0.2, *([-20.0] * 30)])
    for step in range(12):
        found = next_repetition(table, spare=12 - step, noise=1.0)
        if found is None:
            break
        assert found.candidate in (1, 2, 3)
        table.add(found.candidate, found.block, 0.1 * found.candidate + 0.1 * (-1) ** step)
    assert sum(table.count(i) for i in (1, 2, 3)) >= 3 + 3


@pytest.mark.parametrize("seed", range(6))
def test_the_baseline_keeps_up_with_the_leader(seed: int) -> None:
    rng = np.random.default_rng(seed)
    means = [0.0, 1.0, 0.9, 0.8, 0.7, *([-6.0] * 40)]
    table = noisy(means, seed=seed)
    table.baseline = 99
    table.add(99, (0, 0), 0.8 + rng.normal())
    for left in range(12, 0, -1):
        leader = max(table.candidates, key=table.mean)
        found = next_repetition(table, spare=left, noise=1.0)
        if found is None:
            break
        assert found.candidate != 99 or table.count(99) < max(table.count(c) for c in table.candidates)
        mean = 0.8 if found.candidate == 99 else means[found.candidate]
        table.add(found.candidate, found.block, mean + rng.normal())
    assert table.count(99) >= min(table.count(leader) - 1, 2)
    assert set(table.scores(99)) <= {block for c in table.candidates for block in table.scores(c)}


def test_values_are_the_expected_gain_of_simulated_repetitions() -> None:
    """A posterior mean moves by N(0, s²) with k more scores; the gain is that of the best mean."""
    belief = beliefs(design_of(noisy([0.0, 0.5, 0.8, 1.0, 0.2])), noise=1.0)
    assert belief is not None
    values = repetition_values(belief, 5, spare=1)
    expected, own = belief.expected, belief.own_variances
    z = norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    for i in range(5):
        moved = expected[i] + own[i] / np.sqrt(own[i] + 1.0) * z
        gain = np.maximum(moved, np.delete(expected, i).max()).mean() - expected.max()
        assert values[i] == pytest.approx(gain, abs=1e-4)


def test_blocks_in_common_come_first_then_new_seeds() -> None:
    table = noisy([0.0, 1.0, 2.0])  # the reference has the seeds 0, 1, 2
    assert next_block(table, 1) == (1, 0)
    table.add(2, (2, 0), 0.0)
    assert next_block(table, 1) == (2, 0)
    assert next_block(table, 1, pending=[(1, (2, 0))]) == (1, 0)
    assert next_block(table, 0) == (3, 0)


def test_the_rarest_fold_of_a_candidate_is_next() -> None:
    table = ScoreTable()
    for fold in (0, 1, 2):
        table.add(0, (7, fold), 1.0)
    table.add(1, (7, 0), 1.0)
    assert next_block(table, 1) == (7, 1)
    assert next_block(table, 0) == (8, 0)
    table.add(0, (8, 0), 1.0)
    assert next_block(table, 0) == (8, 1)
    for fold in (1, 2):
        table.add(1, (7, fold), 1.0)
    assert next_block(table, 1) == (8, 0)


def test_hundreds_of_seeds_have_few_columns_and_the_verdict_stays_right() -> None:
    random = np.random.default_rng(0)
    table, good = ScoreTable(), [0.5, 0.6, *(-0.1 * number for number in range(10))]
    effects = random.normal(scale=0.2, size=300)  # of the seeds, on all configurations alike
    for candidate, mean in enumerate(good):
        for seed in range(300 if candidate < 2 else 1):
            table.add(candidate, (seed, 0), mean + effects[seed] + 0.1 * random.standard_normal())
    design = design_of(table)
    assert design.columns.shape[1] <= SEEDS + 1
    belief = beliefs(design)
    assert belief is not None
    lead = belief.difference(1, 0)
    assert lead.quantile(0.025) < 0.1 < lead.quantile(0.975)
    assert lead.quantile(0.025) > 0.05
