"""The winner alone, and scores whose noise is too small to compute with."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmltune.search.score_table import ScoreTable
from dmltune.search.winners import judge, leader


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6))
def test_the_leader_is_the_winner_of_the_verdict(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = ScoreTable()
    for candidate in range(int(rng.integers(1, 7))):
        for block in range(int(rng.integers(1, 4))):
            table.add(candidate, (block, 0), float(rng.normal(candidate / 4)))
    verdict = judge(table)
    assert verdict is not None
    assert leader(table) == (verdict.winner, verdict.noise)
    assert leader(ScoreTable()) is None


@pytest.mark.parametrize("tiny", [5e-324, 7e-157, 1e-90, 1e-61])
def test_a_noise_too_small_to_compute_with_is_none(tiny: float) -> None:
    table = ScoreTable()
    for candidate, seed, score in ((0, 0, 0.0), (0, 1, tiny), (1, 0, 1e9)):
        table.add(candidate, (seed, 0), score)
    verdict = judge(table)
    assert verdict is not None
    assert verdict.winner == 1
