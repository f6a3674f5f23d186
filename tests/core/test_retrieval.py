"""Exact retrieval metrics against a full sort in plain Python."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dmltune.core import neighbours
from dmltune.core.retrieval import query_figures, retrieval_metrics

KS = (1, 2, 4, 8)


def by_full_sort(
    query: Tensor, query_labels: Tensor, gallery: Tensor | None, gallery_labels: Tensor | None
) -> dict[str, float]:
    alone = gallery is None
    points = query if gallery is None else gallery
    labels = (query_labels if gallery_labels is None else gallery_labels).tolist()
    names = ["precision_at_1", "r_precision", "map_at_r", *(f"recall_at_{k}" for k in KS)]
    rows = [row for row in by_query(query, query_labels, points, labels, alone) if row]
    means = [sum(column) / len(rows) for column in zip(*rows, strict=True)] if rows else [0.0] * len(names)
    return {**dict(zip(names, means, strict=True)), "queries_without_match": float(len(query) - len(rows))}


def by_query(
    query: Tensor, query_labels: Tensor, points: Tensor, labels: list[int], alone: bool
) -> list[list[float]]:
    """Precision at 1, R-precision, average precision and recalls of every query; nothing without a match."""
    rows: list[list[float]] = []
    for i, (x, label) in enumerate(zip(query.double(), query_labels.tolist(), strict=True)):
        distances = (points.double() - x).square().sum(1).tolist()
        order = sorted((d, j) for j, d in enumerate(distances) if not (alone and i == j))
        same = [labels[j] == label for _, j in order]
        total = sum(same)
        if not total:
            rows.append([])
            continue
        average = sum(sum(same[: r + 1]) / (r + 1) for r in range(total) if same[r]) / total
        rows.append([same[0], sum(same[:total]) / total, average, *(any(same[:k]) for k in KS)])
    return rows


@given(
    seed=st.integers(0, 10**6),
    size=st.integers(2, 40),
    classes=st.integers(1, 12),
    grid=st.sampled_from([0, 1, 3]),
    separate=st.booleans(),
)
@settings(max_examples=120, deadline=None)
def test_it_equals_a_full_sort_with_and_without_ties(
    seed: int, size: int, classes: int, grid: int, separate: bool
) -> None:
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn(2 * size, 3, generator=generator)
    points = (points * grid).round() if grid else points  # points of a coarse grid: many equal distances
    labels = torch.randint(classes, (2 * size,), generator=generator)
    gallery, gallery_labels = (points[size:], labels[size:]) if separate else (None, None)
    found = retrieval_metrics(points[:size], labels[:size], gallery, gallery_labels, KS)
    assert found == pytest.approx(
        by_full_sort(points[:size], labels[:size], gallery, gallery_labels), abs=1e-12
    )


@pytest.mark.parametrize("block", [1, 100, 1 << 22])
def test_the_size_of_the_blocks_changes_nothing(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    points, labels = torch.randn(120, 8), torch.arange(120) % 9
    points[50:60] = points[0]
    expected = retrieval_metrics(points, labels)
    monkeypatch.setattr(neighbours, "_TILE", block)
    assert retrieval_metrics(points, labels) == pytest.approx(expected, abs=1e-14)


def test_equal_points_rank_by_index_however_many_there_are() -> None:
    points = torch.randn(1, 16).expand(300, 16)
    labels = torch.zeros(300, dtype=torch.long)
    labels[:3] = 1
    # Everyone sees the first three first: hits for the other two of class 1 only.
    found = retrieval_metrics(points, labels)
    assert found == pytest.approx(by_full_sort(points, labels, None, None), abs=1e-12)
    assert found["precision_at_1"] == pytest.approx(3 / 300)


def test_neighbours_that_differ_in_the_last_digit_are_told_apart() -> None:
    base = torch.randn(1, 32, dtype=torch.float64)
    points = base + 1e-9 * torch.randn(60, 32, dtype=torch.float64)
    labels = torch.arange(60) % 7
    expected = by_full_sort(points, labels, None, None)
    assert retrieval_metrics(points, labels) == pytest.approx(expected, abs=1e-12)


def test_queries_without_a_match_are_dropped_and_counted() -> None:
    points = torch.tensor([[0.0], [0.1], [5.0], [9.0]])
    found = retrieval_metrics(points, torch.tensor([0, 0, 1, 2]))
    assert found["queries_without_match"] == 2
    assert found["map_at_r"] == found["precision_at_1"] == 1.0
    nobody = retrieval_metrics(points, torch.arange(4))
    assert nobody["queries_without_match"] == 4
    assert nobody["map_at_r"] == 0.0


def test_there_is_a_key_for_every_k_even_beyond_the_gallery() -> None:
    found = retrieval_metrics(torch.tensor([[0.0], [1.0], [1.1]]), torch.tensor([0, 0, 1]), ks=(1, 3, 100))
    assert [found[f"recall_at_{k}"] for k in (1, 3, 100)] == [0.5, 1.0, 1.0]


def test_points_that_are_not_finite_are_refused() -> None:
    with pytest.raises(ValueError, match="embeddings must be finite"):
        retrieval_metrics(torch.tensor([[0.0], [torch.nan]]), torch.tensor([0, 0]))


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("tile", [32 * 32, 1 << 22])
def test_every_query_has_its_own_figures_whatever_the_sizes_of_the_classes(
    separate: bool, tile: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours, "_TILE", tile)
    labels = (torch.randn(300).exp() * 3).long() * (torch.rand(300) < 0.7)  # one large, some of one member
    points = torch.randn(300, 6) + labels.unsqueeze(1) % 5
    points[200:210] = points[:10]
    queries = slice(0, 120 if separate else 300)
    rest = (points[120:], labels[120:]) if separate else (points, labels)
    found = query_figures(points[queries], labels[queries], *(rest if separate else ()), ks=KS)
    expected = by_query(points[queries], labels[queries], rest[0], rest[1].tolist(), not separate)
    rows = [row or [0.0] * (3 + len(KS)) for row in expected]
    columns = [found.precision_at_1_Q, found.r_precision_Q, found.average_precision_Q, *found.recall_QK.T]
    assert found.matched_Q.tolist() == [bool(row) for row in expected]
    for column, right in zip(columns, zip(*rows, strict=True), strict=True):
        torch.testing.assert_close(
            column.double(), torch.tensor(right, dtype=torch.float64), atol=1e-12, rtol=0
        )


@pytest.mark.parametrize("scale", [0.3, 1e-4])
def test_thousands_of_normalised_float32_points_are_ranked_as_in_float64(scale: float) -> None:
    """Classes far apart or, at the smaller scale, collapsed to where float32 products see one point."""
    labels = torch.arange(3000) * 7 % 501
    points = torch.nn.functional.normalize(torch.randn(501, 64)[labels] + scale * torch.randn(3000, 64))
    distances = torch.cdist(points.double(), points.double(), compute_mode="donot_use_mm_for_euclid_dist")
    order = distances.fill_diagonal_(torch.inf).argsort(dim=1, stable=True)[:, :8]
    same = (labels[order] == labels.unsqueeze(1)).double()
    wanted = labels.bincount()[labels] - 1
    within = same * (torch.arange(8) < wanted.unsqueeze(1))
    precision = (within * same.cumsum(1) / torch.arange(1, 9)).sum(1) / wanted
    found = query_figures(points, labels)
    torch.testing.assert_close(found.average_precision_Q, precision, atol=1e-12, rtol=0)
    assert torch.equal(found.nearest_Q, order[:, 0])


def test_the_nearest_is_named_for_confusions() -> None:
    points = torch.tensor([[0.0], [1.0], [1.5], [9.0]])
    found = query_figures(points, torch.tensor([0, 0, 1, 2]))
    assert found.nearest_Q.tolist() == [1, 2, 1, 2]
    assert found.matched_Q.tolist() == [True, True, False, False]
    assert found.recall_QK.dtype == torch.bool
    gallery = query_figures(points, torch.arange(4), points[2:], torch.arange(2))
    assert gallery.nearest_Q.tolist() == [0, 0, 0, 1]
    assert query_figures(points[:1], torch.zeros(1)).nearest_Q.tolist() == [-1]


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("grid", [0, 2])
def test_recall_at_large_k_is_that_of_a_full_sort(separate: bool, grid: int) -> None:
    generator = torch.Generator().manual_seed(3 + grid)
    points = torch.randn(150, 3, generator=generator)
    points = (points * grid).round() if grid else points
    labels = torch.arange(150) % 40
    labels[5] = 99  # alone
    ks = (1, 20, 3, 45)
    query, gallery = (points[:50], points[50:]) if separate else (points, None)
    gallery_labels = labels[50:] if separate else None
    figures = query_figures(query, labels[: len(query)], gallery, gallery_labels, ks)
    against = points if gallery is None else gallery
    against_labels = (labels if gallery_labels is None else gallery_labels).tolist()
    for q, x in enumerate(query.double()):
        distances = (against.double() - x).square().sum(1).tolist()
        order = sorted((d, g) for g, d in enumerate(distances) if separate or g != q)
        same = [against_labels[g] == int(labels[q]) for _, g in order]
        assert figures.recall_QK[q].tolist() == [any(same[:k]) for k in ks], q
    assert 0 < int(figures.recall_QK[:, 1].sum()) < int(figures.recall_QK[:, 3].sum()) < len(query)
