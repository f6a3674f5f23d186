"""Difficult classes and their confusions, from the figures of single queries.

Q queries (of several models too, one after the other), C classes in the order of their labels.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Confusion(NamedTuple):
    """Queries of class `of` with a nearest neighbour of `taken_for`: number and share of the class."""

    of: int
    taken_for: int
    queries: int
    share: float


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
