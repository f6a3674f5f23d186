"""Retrieval metrics of every query, their means, and difficult classes; neighbours.py gives the neighbours.

Q queries (of one block, inside), K neighbours, C classes in the order of their labels; R_Q is the number of
gallery points with the label of a query.
Neighbours are ranked by Euclidean distance in float64, ties by the lower gallery index, down to the larger of
the query's own R and the largest k up to SHALLOW. Only recall at a larger k needs deeper ranks, and only of
queries without a match so far: they are searched again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from dmltune.core import collectives
from dmltune.core.neighbours import blocks

SHALLOW = 16


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


class Confusion(NamedTuple):
    """Queries of class `of` with a nearest neighbour of `taken_for`: number and share of the class."""

    of: int
    taken_for: int
    queries: int
    share: float


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
    R_Q = match_counts(query_labels, labels_G) - int(alone)
    count, device = len(query), query.device
    figures = torch.zeros(3, count, dtype=torch.float64, device=device)
    recall_QK = torch.zeros(count, len(ks), dtype=torch.bool, device=device)
    nearest_Q = torch.full((count,), -1, device=device)
    depth = max([k for k in ks if k <= SHALLOW or sharded], default=1)
    for block in blocks(query, None if alone else gallery, R_Q.clamp(min=depth), sharded=sharded):
        rows, near_QK = block.row_Q, block.index_QK
        same_QK = (labels_G[near_QK.clamp(min=0)] == query_labels[rows].unsqueeze(1)) & (near_QK >= 0)
        figures[:, rows] = figures_of_ranks(same_QK, R_Q[rows])
        for place, k in enumerate(ks):
            recall_QK[rows, place] = same_QK[:, :k].any(1)
        nearest_Q[rows] = near_QK[:, 0]
    if max(ks, default=0) > depth:
        missed = ((R_Q > 0) & ~recall_QK[:, list(ks).index(max(ks))]).nonzero().squeeze(1)
        _search_deeper(recall_QK, missed, query, query_labels, None if alone else gallery, labels_G, ks)
    average_precision_Q, precision_at_1_Q, r_precision_Q = figures
    return QueryFigures(average_precision_Q, precision_at_1_Q, r_precision_Q, recall_QK, R_Q > 0, nearest_Q)


def _search_deeper(
    recall_QK: Tensor,
    missed: Tensor,
    query: Tensor,
    query_labels: Tensor,
    gallery: Tensor | None,
    labels_G: Tensor,
    ks: Sequence[int],
) -> None:
    """Complete the recall of the queries `missed`, which have no match among the neighbours known so far."""
    own_Q = missed if gallery is None else torch.full_like(missed, -1)
    depth_Q = torch.full_like(missed, max(ks))
    gallery = query if gallery is None else gallery
    for block in blocks(query[missed], gallery, depth_Q, own_Q=own_Q):
        rows, near_QK = missed[block.row_Q], block.index_QK
        same_QK = (labels_G[near_QK.clamp(min=0)] == query_labels[rows].unsqueeze(1)) & (near_QK >= 0)
        for place, k in enumerate(ks):
            recall_QK[rows, place] = same_QK[:, :k].any(1)


@torch.no_grad()
def per_class(values_Q: Tensor, labels_Q: Tensor) -> tuple[Tensor, Tensor]:
    """Return (labels_C, mean_C): the mean of each class, m_c = Σ_{q in c} v_q / n_c, in float64.

    NaN marks a query without a match and is left out; a class of such queries only has the mean NaN.
    """
    labels_C, place_Q = torch.unique(labels_Q, return_inverse=True)
    known_Q = ~values_Q.isnan()
    value_Q = values_Q.double().masked_fill(~known_Q, 0.0)
    sums_C = torch.zeros(len(labels_C), dtype=torch.float64, device=values_Q.device)
    sums_C.index_add_(0, place_Q, value_Q)
    counts_C = torch.bincount(place_Q[known_Q], minlength=len(labels_C))
    return labels_C, sums_C / counts_C  # 0 / 0 is the NaN that is promised


@torch.no_grad()
def confusions(labels_Q: Tensor, nearest_labels_Q: Tensor, top: int) -> list[Confusion]:
    """Return the `top` most frequent wrong first neighbours of queries that have a match."""
    if labels_Q.shape != nearest_labels_Q.shape:
        raise ValueError(
            f"every query needs a nearest label; got {len(labels_Q)} queries and {len(nearest_labels_Q)}"
        )
    labels_C, counts_C = torch.unique(labels_Q, return_counts=True)
    size = dict(zip(labels_C.tolist(), counts_C.tolist(), strict=True))
    wrong_Q = labels_Q != nearest_labels_Q
    cells = torch.stack([labels_Q[wrong_Q], nearest_labels_Q[wrong_Q]], dim=1)
    cell_P2, count_P = torch.unique(cells, dim=0, return_counts=True)
    pairs = [
        Confusion(of, taken_for, count, count / size[of])
        for (of, taken_for), count in zip(cell_P2.tolist(), count_P.tolist(), strict=True)
    ]
    return sorted(pairs, key=lambda pair: (-pair.queries, -pair.share, pair.of, pair.taken_for))[:top]


def figures_of_ranks(same_QK: Tensor, R_Q: Tensor) -> Tensor:
    """Return average precision, precision at 1 and R-precision as rows of (3, Q)."""
    rank_K = torch.arange(1, same_QK.shape[1] + 1, device=same_QK.device)
    within_QK = (same_QK & (rank_K <= R_Q.unsqueeze(1))).double()
    average_precision_Q = (within_QK * within_QK.cumsum(1) / rank_K).sum(1) / R_Q.clamp(min=1)
    return torch.stack([average_precision_Q, same_QK[:, 0].double(), within_QK.sum(1) / R_Q.clamp(min=1)])


def match_counts(query_labels: Tensor, gallery_labels: Tensor) -> Tensor:
    """Return how many gallery points share each query's label."""
    labels, counts = torch.unique(gallery_labels, return_counts=True)
    place = torch.searchsorted(labels, query_labels).clamp(max=max(0, len(labels) - 1))
    if not len(labels):
        return torch.zeros_like(query_labels)
    return torch.where(labels[place] == query_labels, counts[place], 0)
