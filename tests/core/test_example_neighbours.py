"""Queries that are shown, against plain loops."""

from __future__ import annotations

import pytest
import torch

from dmltune.core.example_neighbours import NEIGHBOURS, QUERIES, example_neighbours


@pytest.mark.parametrize("with_queries", [False, True])
def test_neighbours_are_the_nearest_by_python_loops(with_queries: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    emb_ND = torch.randn(60, 5, generator=generator)
    labels_N = torch.randint(0, 9, (60,), generator=generator)
    queries_N = torch.rand(60, generator=generator) < 0.4 if with_queries else None
    shown = example_neighbours(emb_ND, labels_N, queries_N)
    assert shown.neighbour_QK.shape == (QUERIES, NEIGHBOURS)
    assert len({int(labels_N[query]) for query in shown.query_Q}) == QUERIES
    for query, neighbours, right in zip(shown.query_Q, shown.neighbour_QK, shown.right_QK, strict=True):
        others = [n for n in range(60) if n != query and (queries_N is None or not queries_N[n])]
        nearest = sorted(others, key=lambda n: float((emb_ND[n] - emb_ND[query]).square().sum()))
        assert neighbours.tolist() == nearest[:NEIGHBOURS]
        assert right.tolist() == [bool(labels_N[n] == labels_N[query]) for n in nearest[:NEIGHBOURS]]
        assert queries_N is None or queries_N[query]


def test_a_set_smaller_than_the_sheet_has_what_it_has() -> None:
    shown = example_neighbours(torch.eye(3), torch.tensor([0, 0, 1]), None)
    assert shown.query_Q.tolist() == [0, 2]
    assert shown.neighbour_QK.shape == (2, 2)
