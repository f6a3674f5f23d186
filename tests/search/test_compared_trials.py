"""The score table of a long search grows with it: nothing is read twice, and it is that of all trials."""

from __future__ import annotations

import numpy as np

from dmltune.search.design import design_of
from dmltune.search.engine_trial import EngineState, EngineTrial, TrialRole
from dmltune.search.population import Population, _log_determinants
from dmltune.search.replication import ComparedTrials
from dmltune.search.score_table import ScoreTable, fold_of


def trial(
    number: int,
    role: TrialRole = "search",
    score: float | None = 1.0,
    repeats: int | None = None,
    seed: int = 0,
) -> EngineTrial:
    state: EngineState = "running" if score is None else "complete"
    made = EngineTrial(number, role, {}, seed=seed, repeats=repeats, state=state)
    if score is not None:
        made.add(1, score)
    return made


def end(one: EngineTrial, score: float) -> None:
    one.add(1, score)
    one.state = "complete"


def same(grown: ScoreTable, trials: list[EngineTrial]) -> bool:
    """Whether it is the table of these trials, also in the order in which equals are decided."""
    whole = ScoreTable.of(trials)
    rows = [(c, list(row.items())) for c, row in grown.rows.items()]
    return (
        rows == [(c, list(row.items())) for c, row in whole.rows.items()]
        and grown.baseline == whole.baseline
        and grown.blocks == whole.blocks
        and dict(grown.used) == dict(whole.used)
    )


def test_a_table_that_grows_is_that_of_all_trials_in_whatever_order_they_end() -> None:
    random = np.random.default_rng(3)
    trials = [trial(0, "reference"), trial(1, "baseline", None)]
    compared = ComparedTrials()
    for number in range(2, 120):
        running = [t for t in trials if t.state == "running"]
        if running and random.random() < 0.5:
            end(running[int(random.integers(len(running)))], float(random.choice([1.0, 2.0, -np.inf])))
        original = int(random.integers(number))
        again = number > 20 and trials[original].repeats is None and random.random() < 0.6
        score = None if random.random() < 0.3 else float(random.normal())
        if again:
            trials.append(trial(number, "repeat", score, original, int(random.integers(5))))
        else:
            trials.append(trial(number, "search", score))
        table, others = compared.of(trials)
        assert same(table, trials)
        assert {t.number for t in others} == {t.number for t in trials if not np.isfinite(t.score or np.inf)}


def test_a_trial_that_was_replaced_or_is_gone_is_not_remembered() -> None:
    compared, trials = ComparedTrials(), [trial(0), trial(1), trial(2)]
    compared.of(trials)
    assert same(compared.of(trials[:2])[0], trials[:2])
    trials[1] = trial(1, score=5.0)
    assert same(compared.of(trials)[0], trials)


def test_blocks_are_those_of_the_rows_in_their_order() -> None:
    random = np.random.default_rng(4)
    table = ScoreTable()
    for _ in range(200):
        block = (int(random.integers(6)), int(random.integers(3)))
        table.add(int(random.integers(10)), block, float(random.normal()))
    blocks = [block for row in table.rows.values() for block in row]
    assert table.blocks == list(dict.fromkeys(blocks))
    assert dict(table.used) == {block: blocks.count(block) for block in blocks}


def test_the_design_has_the_rows_of_the_table() -> None:
    random = np.random.default_rng(5)
    table = ScoreTable(baseline=2)
    for candidate in range(12):
        for seed in range(1 + candidate % 4):
            table.add(candidate, (seed, candidate % 2), float(random.normal()))
    design = design_of(table)
    order = [*(c for c in range(12) if c != 2), 2]
    assert design.candidates == order
    rows = [(i, score) for i, c in enumerate(order) for score in table.scores(c).values()]
    assert list(zip(design.owner.tolist(), design.scores.tolist(), strict=True)) == rows
    blocks = [block for c in order for block in table.scores(c)]
    fold = design.columns[:, design.is_fold][:, 0]
    assert sorted({(fold_of(b), f) for b, f in zip(blocks, fold, strict=True)}) in (
        [(0, 0), (1, 1)],
        [(0, 1), (1, 0)],
    )


def test_the_grid_costs_no_more_with_more_repeated_candidates() -> None:
    """Candidates with equally many scores share a covariance: one group for each number and half."""
    random, table = np.random.default_rng(6), ScoreTable()
    for candidate in range(200):
        for seed in range(1 + candidate % 3):
            table.add(candidate, (seed, 0), float(random.normal()))
    population = Population(design_of(table))
    assert len(population._group_counts) <= 4
    assert population._group_sizes.sum() == len(population._telling)


def test_log_determinants_also_of_matrices_that_rounding_has_spoilt() -> None:
    good = np.array([[[4.0, 1.0], [1.0, 3.0]], [[2.0, 0.0], [0.0, 5.0]]])
    np.testing.assert_allclose(_log_determinants(good), np.log([11.0, 10.0]))
    spoilt = np.array([[[1.0, 2.0], [2.0, 1.0]]])  # |M| = −3
    np.testing.assert_allclose(_log_determinants(spoilt), np.log([3.0]))
