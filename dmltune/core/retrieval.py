"""Retrieval metrics of every query and their means, from exact neighbours (neighbours.py).

Q queries (of one block, inside), K neighbours; R_Q is the number of gallery points with the label of a query.
Neighbours are ranked by Euclidean distance in float64, ties by the lower gallery index, down to the larger of
the query's own R and the largest k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dmltune.core import collectives
from dmltune.core.neighbours import blocks


@dataclass(frozen=True)
class QueryFigures:
    """Figures of every query; those of queries without a match are 0.

    With m_i = [the i-th neighbour matches]: average_precision = 1/R Σ_{i≤R} m_i · (m_1 + … + m_i)/i, whose
    mean is MAP@R; r_precision = 1/R Σ_{i≤R} m_i; precision_at_1 = m_1; recall at k = max_{i≤k} m_i.
    matched_Q: whether the gallery has a match; nearest_Q: gallery index of the first neighbour, −1 if there
    is none.
    """

    average_precision_Q: Tensor
    precision_at_1_Q: Tensor
    r_precision_Q: Tensor
    recall_QK: Tensor
    matched_Q: Tensor
    nearest_Q: Tensor


def retrieval_metrics(
    query: Tensor,
    query_labels: Tensor,
    gallery: Tensor | None = None,
    gallery_labels: Tensor | None = None,
    ks: Sequence[int] = (1, 2, 4, 8),
) -> dict[str, float]:
    """Return precision_at_1, r_precision, map_at_r, recall_at_k and queries_without_match (a count).

    Means over the queries that have a match (0 when none has); see `query_figures`.
    """
    return mean_figures(query_figures(query, query_labels, gallery, gallery_labels, ks), ks)


def mean_figures(figures: QueryFigures, ks: Sequence[int]) -> dict[str, float]:
    count = int(figures.matched_Q.sum())
    columns = {
        "precision_at_1": figures.precision_at_1_Q,
        "r_precision": figures.r_precision_Q,
        "map_at_r": figures.average_precision_Q,
        **{f"recall_at_{k}": figures.recall_QK[:, place].double() for place, k in enumerate(ks)},
    }
    means = {name: float(column.sum()) / max(1, count) for name, column in columns.items()}
    return {**means, "queries_without_match": float(len(figures.matched_Q) - count)}


@torch.no_grad()
def query_figures(
    query: Tensor,
    query_labels: Tensor,
    gallery: Tensor | None = None,
    gallery_labels: Tensor | None = None,
    ks: Sequence[int] = (1, 2, 4, 8),
    *,
    sharded: bool = False,
) -> QueryFigures:
    """Compute the figures of every query; without a gallery, all queries but itself are its gallery.

    `sharded`: every rank of torch.distributed holds a part of the gallery with its labels, and all the
    queries; without a gallery it holds a part of the points and gets their figures. `nearest_Q` counts
    through the parts.
    """
    alone = gallery is None or gallery_labels is None
    labels_G = query_labels if gallery_labels is None else gallery_labels
    labels_G = collectives.gather(labels_G) if sharded else labels_G
    R_Q = _matches(query_labels, labels_G) - int(alone)
    count, device = len(query), query.device
    figures = torch.zeros(3, count, dtype=torch.float64, device=device)
    recall_QK = torch.zeros(count, len(ks), dtype=torch.bool, device=device)
    nearest_Q = torch.full((count,), -1, device=device)
    for block in blocks(query, None if alone else gallery, R_Q.clamp(min=max([*ks, 1])), sharded=sharded):
        rows, near_QK = block.row_Q, block.index_QK
        same_QK = (labels_G[near_QK.clamp(min=0)] == query_labels[rows].unsqueeze(1)) & (near_QK >= 0)
        figures[:, rows] = _figures(same_QK, R_Q[rows])
        for place, k in enumerate(ks):
            recall_QK[rows, place] = same_QK[:, :k].any(1)
        nearest_Q[rows] = near_QK[:, 0]
    average_precision_Q, precision_at_1_Q, r_precision_Q = figures
    return QueryFigures(average_precision_Q, precision_at_1_Q, r_precision_Q, recall_QK, R_Q > 0, nearest_Q)


def _figures(same_QK: Tensor, R_Q: Tensor) -> Tensor:
    """Return average precision, precision at 1 and R-precision as rows of (3, Q)."""
    rank_K = torch.arange(1, same_QK.shape[1] + 1, device=same_QK.device)
    within_QK = (same_QK & (rank_K <= R_Q.unsqueeze(1))).double()
    average_precision_Q = (within_QK * within_QK.cumsum(1) / rank_K).sum(1) / R_Q.clamp(min=1)
    return torch.stack([average_precision_Q, same_QK[:, 0].double(), within_QK.sum(1) / R_Q.clamp(min=1)])


def _matches(query_labels: Tensor, gallery_labels: Tensor) -> Tensor:
    """Return how many gallery points share each query's label."""
    labels, counts = torch.unique(gallery_labels, return_counts=True)
    place = torch.searchsorted(labels, query_labels).clamp(max=max(0, len(labels) - 1))
    if not len(labels):
        return torch.zeros_like(query_labels)
    return torch.where(labels[place] == query_labels, counts[place], 0)
