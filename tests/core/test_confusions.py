"""Means of classes and frequent mistakes, against loops over queries."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dmltune.core.retrieval import Confusion, confusions, per_class

queries = st.lists(st.tuples(st.integers(-2, 6), st.integers(-2, 6)), max_size=40)
valued = st.lists(st.tuples(st.integers(-2, 6), st.floats(0, 1) | st.just(math.nan)), max_size=40)


def by_loops(pairs: list[tuple[int, int]], top: int) -> list[tuple[int, int, int, float]]:
    size = Counter(of for of, _ in pairs)
    wrong = Counter((of, nearest) for of, nearest in pairs if of != nearest)
    rows = [(of, nearest, count, count / size[of]) for (of, nearest), count in wrong.items()]
    rows.sort(key=lambda row: (-row[2], -row[3], row[0], row[1]))
    return rows[:top]


@given(queries, st.integers(0, 12))
@settings(max_examples=150, deadline=None)
def test_confusions_equal_the_loops(pairs: list[tuple[int, int]], top: int) -> None:
    labels = torch.tensor([of for of, _ in pairs], dtype=torch.long)
    nearest = torch.tensor([near for _, near in pairs], dtype=torch.long)
    assert confusions(labels, nearest, top) == by_loops(pairs, top)


@given(valued)
@settings(max_examples=150, deadline=None)
def test_means_of_classes_equal_the_loops_and_leave_nan_out(rows: list[tuple[int, float]]) -> None:
    labels = torch.tensor([label for label, _ in rows], dtype=torch.long)
    values = torch.tensor([value for _, value in rows], dtype=torch.float64)
    found_labels, found = per_class(values, labels)
    assert found_labels.tolist() == sorted({label for label, _ in rows})
    for label, mean in zip(found_labels.tolist(), found.tolist(), strict=True):
        kept = [value for of, value in rows if of == label and not math.isnan(value)]
        expected = sum(kept) / len(kept) if kept else math.nan
        assert mean == pytest.approx(expected, abs=1e-12, nan_ok=True)


def test_the_order_of_queries_does_not_matter() -> None:
    generator = torch.Generator().manual_seed(0)
    labels, nearest = torch.randint(9, (2, 300), generator=generator)
    order = torch.randperm(300, generator=generator)
    assert confusions(labels, nearest, 20) == confusions(labels[order], nearest[order], 20)


def test_of_equally_frequent_confusions_the_one_of_the_smaller_class_comes_first() -> None:
    labels, nearest = torch.tensor([0, 0, 0, 1, 1]), torch.tensor([1, 0, 0, 0, 1])
    assert confusions(labels, nearest, 2) == [Confusion(1, 0, 1, 1 / 2), Confusion(0, 1, 1, 1 / 3)]


def test_half_precision_values_are_summed_in_float64() -> None:
    values = torch.full((4096,), 0.1, dtype=torch.bfloat16)
    _, mean = per_class(values, torch.zeros(4096, dtype=torch.long))
    assert mean.dtype == torch.float64
    assert float(mean) == pytest.approx(float(values[0]), abs=1e-12)


def test_every_query_needs_a_neighbour() -> None:
    with pytest.raises(ValueError, match="got 2 queries and 3"):
        confusions(torch.zeros(2), torch.zeros(3), 5)
