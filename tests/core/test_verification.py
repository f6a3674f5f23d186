"""Verification rates against every threshold tried in plain Python."""

from __future__ import annotations

import itertools
import math
import statistics
import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dmltune.core.verification import accuracy, tar_at_far


def by_trying(scores: list[float], same: list[bool], far: float) -> float:
    own = [s for s, alike in zip(scores, same, strict=True) if alike]
    other = [s for s, alike in zip(scores, same, strict=True) if not alike]
    best = 0.0
    for threshold in [*scores, math.inf]:
        if sum(s >= threshold for s in other) / len(other) <= far:
            best = max(best, sum(s >= threshold for s in own) / len(own))
    return best


def by_trying_on_folds(scores: list[float], same: list[bool], folds: int) -> tuple[float, float]:
    sizes = [len(scores) // folds + (fold < len(scores) % folds) for fold in range(folds)]
    rates, start = [], 0
    for size in sizes:
        test = range(start, start + size)
        train = [i for i in range(len(scores)) if i not in test]
        start += size
        values = sorted({scores[i] for i in train})
        between = [(a + b) / 2 for a, b in itertools.pairwise(values)]
        thresholds = [-math.inf, *between, math.inf]
        right = [sum((scores[i] >= t) == same[i] for i in train) for t in thresholds]
        best = thresholds[right.index(max(right))]
        rates.append(sum((scores[i] >= best) == same[i] for i in test) / size)
    return statistics.mean(rates), statistics.stdev(rates)


grid = st.integers(-6, 6).map(float)  # few values: many ties
pairs = st.lists(st.tuples(grid | st.floats(-2, 2, width=32), st.booleans()), min_size=2, max_size=40)


@given(pairs, st.lists(st.sampled_from([0, 0.07, 0.1, 0.25, 0.29, 1 / 3, 0.5, 0.999, 1]), max_size=5))
@settings(max_examples=300, deadline=None)
def test_the_rates_are_the_best_of_all_thresholds(drawn: list[tuple[float, bool]], fars: list[float]) -> None:
    scores, same = map(list, zip(*drawn, strict=True))
    if len(set(same)) < 2:
        return
    expected = [by_trying(scores, same, far) for far in fars]
    assert tar_at_far(scores, same, fars) == expected
    assert tar_at_far(torch.tensor(scores, dtype=torch.float32), torch.tensor(same), fars) == expected
    assert tar_at_far(np.array(scores), np.array(same, dtype=np.int8), fars) == expected


def test_every_number_of_allowed_pairs_is_met_exactly() -> None:
    scores = np.concatenate([np.arange(100) + 0.5, np.arange(100)])  # one same pair above each of the others
    same = np.arange(200) < 100
    fars = [count / 100 for count in range(101)]
    assert tar_at_far(scores, same, fars) == [min(1.0, (count + 1) / 100) for count in range(101)]


def test_equal_scores_are_accepted_or_refused_together() -> None:
    assert tar_at_far([1, 1, 1, 0], [True, False, False, False], [0, 0.34, 0.67]) == [0, 0, 1]
    assert tar_at_far([-math.inf, math.inf, 0], [True, True, False], [0, 1]) == [0.5, 1]


def test_the_scores_given_stay_as_they_are() -> None:
    scores = torch.randn(50)
    before, same = scores.clone(), torch.arange(50) % 2 == 0
    tar_at_far(scores, same, [0.1])
    accuracy(scores, same)
    assert torch.equal(scores, before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_needs_little_more_memory_than_one_copy_of_the_scores(dtype: torch.dtype) -> None:
    scores = torch.randn(1_000_000, dtype=dtype)
    same = torch.arange(len(scores)) % 1000 == 0
    tracemalloc.start()
    try:
        tar_at_far(scores, same, [1e-5, 1e-4, 1e-3, 0.5])
        assert tracemalloc.get_traced_memory()[1] < (scores.element_size() + 3) * len(scores)
    finally:
        tracemalloc.stop()


@given(pairs, st.integers(2, 10))
@settings(max_examples=200, deadline=None)
def test_the_accuracy_is_that_of_thresholds_tried_on_the_other_folds(
    drawn: list[tuple[float, bool]], folds: int
) -> None:
    scores, same = map(list, zip(*drawn, strict=True))
    if len(set(same)) < 2 or folds > len(scores):
        return
    assert accuracy(scores, same, folds) == pytest.approx(by_trying_on_folds(scores, same, folds), abs=1e-12)


def test_separable_pairs_are_all_judged_rightly() -> None:
    same = np.arange(600) % 2 == 0
    scores = np.where(same, 0.6, 0.1) + np.random.default_rng(0).uniform(-0.2, 0.2, 600)
    assert accuracy(scores, same) == (1.0, 0.0)


def test_neighbouring_numbers_are_told_apart() -> None:
    low = 1.0
    high = math.nextafter(low, 2)
    assert accuracy([low, high] * 10, [False, True] * 10) == (1.0, 0.0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types_are_understood(dtype: torch.dtype) -> None:
    scores, same = torch.tensor([0.5, 0.25, 1.0, 0.75], dtype=dtype), torch.tensor([True, False, True, False])
    assert tar_at_far(scores, same, [0.0, 0.5]) == [0.5, 1.0]
    assert accuracy(scores, same, 2)[0] == accuracy(scores.double(), same, 2)[0]


@pytest.mark.parametrize(
    ("call", "arguments", "message"),
    [
        (tar_at_far, ([0.1, 0.2], [True, True], [0.1]), "both kinds are needed; got 2 same of 2"),
        (tar_at_far, ([0.1, 0.2], [False, False], [0.1]), "both kinds are needed; got 0 same of 2"),
        (tar_at_far, ([0.1, math.nan], [True, False], [0.1]), "nan"),
        (tar_at_far, ([0.1], [True, False], [0.1]), "every pair needs a score"),
        (tar_at_far, ([0.1, 0.2], [True, False], [1.1]), "between 0 and 1; got 1.1"),
        (accuracy, ([0.1, 0.2], [True, False], 3), "between 2 and the 2 pairs; got 3"),
        (accuracy, ([0.1, math.inf], [True, False], 2), "must be finite"),
    ],
)
def test_what_cannot_be_measured_is_refused(call: Any, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(*arguments)
