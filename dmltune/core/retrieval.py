"""Exact retrieval metrics, block by block: never the whole query × gallery matrix.

Q queries of one block, G gallery points, K neighbours looked at, D dimensions; R_Q is how many gallery
points share a query's label. Neighbours are ranked by Euclidean distance in float64, ties by the lower
gallery index.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

_BLOCK = 1 << 22
"""Numbers held at once."""
_SPARE = 4
"""Candidates beyond K, so that rounding in the fast distances seldom sends a query to the slow way."""


@torch.no_grad()
def retrieval_metrics(
    query: Tensor,
    query_labels: Tensor,
    gallery: Tensor | None = None,
    gallery_labels: Tensor | None = None,
    ks: Sequence[int] = (1, 2, 4, 8),
) -> dict[str, float]:
    """precision_at_1, r_precision, map_at_r, recall_at_k for every k, queries_without_match (a count).

    MAP@R = 1/R Σ_{i≤R} P@i·[the i-th neighbour matches]. Without a gallery the queries are each other's, and
    none is its own neighbour. Averages run over the queries that have a match (0 when none has).
    """
    alone = gallery is None
    if gallery is None or gallery_labels is None:
        gallery, gallery_labels = query, query_labels
    if not (bool(query.isfinite().all()) and bool(gallery.isfinite().all())):
        raise ValueError("embeddings must be finite")
    R_Q = _matches(query_labels, gallery_labels) - int(alone)
    depth = min(max([int(R_Q.max()) if len(R_Q) else 0, *ks, 1]), len(gallery) - int(alone))
    sums = torch.zeros(3 + len(ks), dtype=torch.float64, device=query.device)
    for rows, near_QK in _nearest(query.double(), gallery.double(), depth, alone):
        kept = R_Q[rows] > 0
        same_QK = (gallery_labels[near_QK] == query_labels[rows].unsqueeze(1))[kept]
        sums += _sums(same_QK, R_Q[rows][kept], ks)
    count = int((R_Q > 0).sum())
    names = ["precision_at_1", "r_precision", "map_at_r", *(f"recall_at_{k}" for k in ks)]
    values = (sums / max(1, count)).tolist()
    return {**dict(zip(names, values, strict=True)), "queries_without_match": float(len(query) - count)}


def _sums(same_QK: Tensor, R_Q: Tensor, ks: Sequence[int]) -> Tensor:
    """The figures of a block, summed over its queries, in the order of `names` above."""
    same_QK = same_QK.double()
    rank_K = torch.arange(1, same_QK.shape[1] + 1, device=same_QK.device)
    within_QK = same_QK * (rank_K <= R_Q.unsqueeze(1))
    precision_QK = same_QK.cumsum(1) / rank_K
    figures = [
        same_QK[:, :1].sum(),
        (within_QK.sum(1) / R_Q).sum(),
        ((within_QK * precision_QK).sum(1) / R_Q).sum(),
    ]
    return torch.stack(
        figures + [same_QK[:, :k].amax(1).sum() if same_QK.numel() else figures[0] * 0 for k in ks]
    )


def _matches(query_labels: Tensor, gallery_labels: Tensor) -> Tensor:
    """How many gallery points share each query's label."""
    labels, counts = torch.unique(gallery_labels, return_counts=True)
    place = torch.searchsorted(labels, query_labels).clamp(max=max(0, len(labels) - 1))
    return torch.where(labels[place] == query_labels, counts[place], 0)


def _nearest(query: Tensor, gallery: Tensor, depth: int, alone: bool) -> Iterator[tuple[slice, Tensor]]:
    """Blocks of queries with their `depth` nearest gallery indices in order.

    Fast distances by a matrix product choose candidates, differences rank them. What was left out is farther
    than what was kept by more than the rounding error, or the query goes the slow way.
    """
    available = len(gallery) - int(alone)
    if depth < 1:
        return
    candidates = min(depth + _SPARE, available)
    centre_D = gallery.mean(0)
    gallery_c, norms_G = gallery - centre_D, (gallery - centre_D).square().sum(1)
    slow = _SlowWay(gallery)
    size = max(1, _BLOCK // max(len(gallery), candidates * gallery.shape[1]))
    for start in range(0, len(query), size):
        rows = slice(start, min(start + size, len(query)))
        block = query[rows]
        block_c = block - centre_D
        norm_Q1 = block_c.square().sum(1, keepdim=True)
        fast_QG = torch.addmm(norms_G, block_c, gallery_c.T, alpha=-2)
        own_Q = torch.arange(rows.start, rows.stop, device=query.device) if alone else None
        if own_Q is not None:
            fast_QG[torch.arange(len(block), device=query.device), own_Q] = torch.inf
        fast_QK, index_QK = fast_QG.topk(candidates, largest=False, sorted=False)
        index_QK = index_QK.sort(1).values  # so that a stable sort by distance puts the lower index first
        exact_QK, order = (block.unsqueeze(1) - gallery[index_QK]).square().sum(2).sort(dim=1, stable=True)
        near_QK = index_QK.gather(1, order)[:, :depth]
        if candidates < available:
            rounding_Q = 8 * (gallery.shape[1] + 4) * 2.3e-16 * (norm_Q1.squeeze(1) + norms_G.max())
            unsure = exact_QK[:, depth - 1] + rounding_Q >= fast_QK.amax(1) + norm_Q1.squeeze(1)
            for row in unsure.nonzero().squeeze(1).tolist():
                near_QK[row] = slow.ranked(block[row], None if own_Q is None else int(own_Q[row]))[:depth]
        yield rows, near_QK


class _SlowWay:
    """All distances of a query from the differences; equal gallery points share one, so ties are exact."""

    def __init__(self, gallery: Tensor) -> None:
        self.gallery = gallery
        self.distinct: tuple[Tensor, Tensor] | None = None

    def ranked(self, query_D: Tensor, own: int | None) -> Tensor:
        if self.distinct is None:
            points, place_G = torch.unique(self.gallery, dim=0, return_inverse=True)
            self.distinct = points, place_G
        points, place_G = self.distinct
        distance_G = (points - query_D).square().sum(1)[place_G]
        if own is not None:
            distance_G[own] = torch.inf
        return distance_G.argsort(stable=True)
