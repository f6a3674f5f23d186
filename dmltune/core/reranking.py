"""Re-ranking after a search, without training: k-reciprocal encoding and alpha query expansion.

N points, Q queries, G gallery points, D dimensions, K neighbours. k-reciprocal follows Zhong et al.,
"Re-ranking Person Re-identification with k-reciprocal Encoding" (CVPR 2017); expansion follows Radenović et
al., "Fine-tuning CNN Image Retrieval with No Human Annotation" (TPAMI 2019).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dmltune.core.neighbours import blocks, nearest_neighbours
from dmltune.core.retrieval import QueryFigures, figures_of_ranks, match_counts, mean_figures
from dmltune.errors import UserError, nearest

if TYPE_CHECKING:
    from scipy.sparse import csr_array

METHODS = ("k-reciprocal", "aqe")
K1, K2, WEIGHT = 20, 6, 0.3  # of k-reciprocal: the paper's; WEIGHT is λ, that of the original distance
EXPANDED, ALPHA = 10, 3.0  # neighbours that are added to a query, and the power of their similarity
_ROWS = 256
Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]


def require_method(method: str) -> None:
    if method not in METHODS:
        raise UserError(f"no re-ranking '{method}'{nearest(method, METHODS)}; there are {', '.join(METHODS)}")


@torch.no_grad()
def reranked_metrics(
    method: str,
    query: Tensor,
    query_labels: Tensor,
    gallery: Tensor | None = None,
    gallery_labels: Tensor | None = None,
    ks: Sequence[int] = (1, 2, 4, 8),
) -> dict[str, float]:
    """Return what `retrieval_metrics` returns, of the re-ranked neighbours."""
    require_method(method)
    alone = gallery is None or gallery_labels is None
    labels_G = query_labels if gallery_labels is None else gallery_labels
    R_Q = match_counts(query_labels, labels_G) - int(alone)
    depth = int(max([*ks, 1, int(R_Q.amax()) if len(R_Q) else 1]))
    figures = torch.zeros(3, len(query), dtype=torch.float64)
    recall_QK = torch.zeros(len(query), len(ks), dtype=torch.bool)
    nearest_Q = torch.full((len(query),), -1)
    for row_Q, near_QK in ranked(method, query, None if alone else gallery, depth):
        same_QK = (labels_G[near_QK.clamp(min=0)] == query_labels[row_Q].unsqueeze(1)) & (near_QK >= 0)
        figures[:, row_Q] = figures_of_ranks(same_QK, R_Q[row_Q])
        for place, k in enumerate(ks):
            recall_QK[row_Q, place] = same_QK[:, :k].any(1)
        nearest_Q[row_Q] = near_QK[:, 0]
    average, first, r_precision = figures
    return mean_figures(QueryFigures(average, first, r_precision, recall_QK, R_Q > 0, nearest_Q), ks)


def ranked(method: str, query: Tensor, gallery: Tensor | None, depth: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield (row_Q, gallery indices (rows, depth), −1 behind the end) until every query was there once.

    Without a gallery the queries are each other's, and none is its own neighbour.
    """
    depth = min(depth, len(query if gallery is None else gallery))
    if method == "k-reciprocal":
        yield from _by_reciprocity(query, gallery, depth)
        return
    count = len(query)
    own_Q = torch.arange(count) if gallery is None else torch.full((count,), -1)
    points = query if gallery is None else gallery
    found = blocks(expanded(query, gallery), points, torch.full((count,), depth), own_Q=own_Q)
    yield from ((block.row_Q, block.index_QK) for block in found)


def expanded(query: Tensor, gallery: Tensor | None) -> Tensor:
    """Return (x + Σ s_i^α x_i) / (1 + Σ s_i^α) of every query x over its nearest x_i, s = 1 − ‖x − x_i‖²/2.

    A negative s counts as 0.
    """
    points = query if gallery is None else gallery
    index_QK, squared_QK = nearest_neighbours(query, gallery, min(EXPANDED, len(points)))
    weight_QK = (1 - squared_QK / 2).clamp(min=0).pow(ALPHA).masked_fill(index_QK < 0, 0.0).to(query.dtype)
    near_QKD = points[index_QK.clamp(min=0)]
    total_QD = query + (weight_QK.unsqueeze(2) * near_QKD).sum(1)
    return total_QD / (1 + weight_QK.sum(1, keepdim=True))


def _by_reciprocity(query: Tensor, gallery: Tensor | None, depth: int) -> Iterator[tuple[Tensor, Tensor]]:
    points = (query if gallery is None else torch.cat([query, gallery])).double()
    count, first = len(points), 0 if gallery is None else len(query)
    ranks_NK = _ranks(points)
    largest_N = torch.cat([_squared(points[rows], points).amax(1) for rows in _rows(count)]).numpy()
    codes = _codes(points, ranks_NK, np.maximum(largest_N, 1e-12))
    columns = codes.tocsc()
    for rows in _rows(len(query)):
        squared_QG = _squared(points[rows], points).numpy() / np.maximum(largest_N[rows, None], 1e-12)
        final_QG = WEIGHT * squared_QG
        for at, row in enumerate(range(rows.start, rows.stop)):
            final_QG[at] += (1 - WEIGHT) * _jaccard(codes, columns, row)
            if gallery is None:
                final_QG[at, row] = np.inf
        order_QK = np.argsort(final_QG[:, first:], axis=1, kind="stable")[:, :depth]
        near_QK = torch.from_numpy(order_QK)
        if gallery is None:
            near_QK[:, count - 1 :] = -1  # itself
        yield torch.arange(rows.start, rows.stop), near_QK


def _rows(count: int) -> list[slice]:
    return [slice(start, min(start + _ROWS, count)) for start in range(0, count, _ROWS)]


def _squared(left: Tensor, right: Tensor) -> Tensor:
    return torch.cdist(left, right, compute_mode="use_mm_for_euclid_dist").square()


def _ranks(points: Tensor) -> Ints:
    """Return each point itself, then its K1 nearest others: (N, K1 + 1), −1 behind the end."""
    index_NK = nearest_neighbours(points, None, K1)[0]
    return torch.cat([torch.arange(len(points)).unsqueeze(1), index_NK], dim=1).numpy()


def _codes(points: Tensor, ranks_NK: Ints, largest_N: Doubles) -> csr_array:
    """Return the encoding V of every point, averaged over its K2 nearest (eq. 4 to 11): sparse (N, N)."""
    from scipy.sparse import csr_array

    near = [set(row[row >= 0].tolist()) for row in ranks_NK]
    half = round(K1 / 2) + 1
    nearer = [set(row[:half][row[:half] >= 0].tolist()) for row in ranks_NK]
    reciprocal = [{j for j in near[i] if i in near[j]} for i in range(len(near))]
    reciprocal_half = [{j for j in nearer[i] if i in nearer[j]} for i in range(len(near))]
    values: list[Doubles] = []
    members: list[Ints] = []
    for i, own in enumerate(reciprocal):
        group = set(own)
        for j in own:
            if 3 * len(reciprocal_half[j] & own) > 2 * len(reciprocal_half[j]):
                group |= reciprocal_half[j]
        member = np.array(sorted(group), dtype=np.int64)
        squared = (points[torch.from_numpy(member)] - points[i]).square().sum(1).numpy()
        weight = np.exp(-squared / largest_N[i])
        members.append(member)
        values.append(weight / weight.sum())
    starts = np.cumsum([0, *(len(member) for member in members)])
    shape = (len(near), len(near))
    codes = csr_array((np.concatenate(values), np.concatenate(members), starts), shape=shape)
    nearest_K2 = ranks_NK[:, :K2]
    valid = nearest_K2 >= 0
    row, column = np.repeat(np.arange(len(near)), valid.sum(1)), nearest_K2[valid]
    share = np.repeat(1.0 / valid.sum(1), valid.sum(1))
    return csr_array(csr_array((share, (row, column)), shape=shape) @ codes)


def _jaccard(codes: csr_array, columns: csr_array, row: int) -> Doubles:
    """Return 1 − Σ min / Σ max of the code of `row` and that of every point; each code sums to 1."""
    inside = slice(codes.indptr[row], codes.indptr[row + 1])
    places, weights = codes.indices[inside], codes.data[inside]
    spans = [slice(columns.indptr[place], columns.indptr[place + 1]) for place in places]
    points = np.concatenate([columns.indices[span] for span in spans])
    smaller = np.concatenate(
        [np.minimum(columns.data[span], weight) for span, weight in zip(spans, weights, strict=True)]
    )
    common_N = np.bincount(points, smaller, minlength=codes.shape[0])
    result: Doubles = 1 - common_N / (2 - common_N)
    return result
