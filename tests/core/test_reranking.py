"""Re-ranking against slow oracles: the published dense code of k-reciprocal encoding, and loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from dmltune.core.geometry import l2_normalise
from dmltune.core.reranking import ALPHA, EXPANDED, K1, K2, WEIGHT, expanded, ranked, reranked_metrics
from dmltune.core.retrieval import retrieval_metrics
from dmltune.errors import UserError


def points(count: int, classes: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % classes
    centres = torch.randn(classes, 6, generator=generator)
    noise = torch.randn(count, 6, generator=generator)
    return l2_normalise(centres[labels] + 0.9 * noise), labels


def reciprocal_distances(emb: NDArray[np.float64], queries: int) -> NDArray[np.float64]:
    """The code of Zhong et al. in dense matrices: final distances of the queries to all points."""
    count = len(emb)
    original = ((emb[:, None] - emb[None]) ** 2).sum(-1)
    original = original / original.max(1, keepdims=True)
    rank = np.argsort(original + np.where(np.eye(count), -1.0, 0.0), axis=1, kind="stable")
    codes = np.zeros((count, count))

    def reciprocal(i: int, k: int) -> NDArray[np.int64]:
        forward = rank[i, : k + 1]
        return forward[[i in rank[j, : k + 1] for j in forward]]

    for i in range(count):
        own = reciprocal(i, K1)
        group = own
        for j in own:
            other = reciprocal(int(j), round(K1 / 2))
            if len(np.intersect1d(other, own)) > 2 / 3 * len(other):
                group = np.append(group, other)
        group = np.unique(group)
        weight = np.exp(-original[i, group])
        codes[i, group] = weight / weight.sum()
    codes = np.stack([codes[rank[i, :K2]].mean(0) for i in range(count)])
    smaller = np.minimum(codes[:queries, None], codes[None]).sum(-1)
    return WEIGHT * original[:queries] + (1 - WEIGHT) * (1 - smaller / (2 - smaller))


def rows(method: str, query: Tensor, gallery: Tensor | None, depth: int) -> Tensor:
    result = torch.full((len(query), depth), -7)
    for row_Q, near_QK in ranked(method, query, gallery, depth):
        result[row_Q] = near_QK
    return result


@pytest.mark.parametrize("count", [30, 300])
def test_k_reciprocal_ranks_as_the_published_dense_code(count: int) -> None:
    emb, _ = points(count, 8, seed=count)
    final = reciprocal_distances(emb.double().numpy(), count)
    np.fill_diagonal(final, np.inf)
    near = rows("k-reciprocal", emb, None, 12)
    found = np.take_along_axis(final, near.numpy(), 1)
    np.testing.assert_allclose(found, np.sort(final, 1)[:, :12], atol=1e-9)


def test_queries_and_a_gallery_are_encoded_together() -> None:
    emb, _ = points(80, 6, seed=1)
    query, gallery = emb[:25], emb[25:]
    final = reciprocal_distances(emb.double().numpy(), 25)[:, 25:]
    near = rows("k-reciprocal", query, gallery, 10)
    found = np.take_along_axis(final, near.numpy(), 1)
    np.testing.assert_allclose(found, np.sort(final, 1)[:, :10], atol=1e-9)


def test_expansion_is_the_weighted_mean_with_the_nearest() -> None:
    emb, _ = points(40, 5, seed=2)
    for gallery in (None, emb[10:]):
        mine = expanded(emb[:10] if gallery is not None else emb, gallery)
        pool = emb if gallery is None else gallery
        for i, row in enumerate(mine):
            others = [x for j, x in enumerate(pool) if gallery is not None or j != i]
            others.sort(key=lambda x: float(((emb[i] - x).double() ** 2).sum()))
            total, weights = emb[i].double(), 1.0
            for x in others[:EXPANDED]:
                weight = max(0.0, 1 - float(((emb[i] - x).double() ** 2).sum()) / 2) ** ALPHA
                total, weights = total + weight * x.double(), weights + weight
            torch.testing.assert_close(row.double(), total / weights, atol=1e-6, rtol=0)


@pytest.mark.parametrize("method", ["k-reciprocal", "aqe"])
def test_both_help_where_neighbours_of_neighbours_are_right(method: str) -> None:
    emb, labels = points(400, 10, seed=3)
    before = retrieval_metrics(emb, labels)["map_at_r"]
    after = reranked_metrics(method, emb, labels)
    assert after["map_at_r"] > before + 0.02
    order = torch.randperm(400, generator=torch.Generator().manual_seed(0))
    again = reranked_metrics(method, emb[order], labels[order])
    assert again["map_at_r"] == pytest.approx(after["map_at_r"], abs=1e-6)


@pytest.mark.parametrize("method", ["k-reciprocal", "aqe"])
def test_few_points_and_queries_without_a_match(method: str) -> None:
    emb, _ = points(3, 3, seed=4)
    metrics = reranked_metrics(method, emb, torch.tensor([0, 0, 1]))
    assert metrics["queries_without_match"] == 1
    assert 0 <= metrics["map_at_r"] <= 1
    assert rows(method, emb, None, 2).amin() >= 0
    one = rows(method, emb[:2], emb[2:], 1)
    assert one.tolist() == [[0], [0]]


def test_another_method_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UserError, match="did you mean 'k-reciprocal'"):
        reranked_metrics("k-reciprocl", *points(4, 2, seed=5))
