"""Which classes are hard, and what they are taken for, from the figures of single queries.

Q queries (of several models, one after the other, if you like), C classes in the order of their labels.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Confusion(NamedTuple):
    """So many queries of class `of`, this share of them all, have one of `taken_for` as nearest neighbour."""

    of: int
    taken_for: int
    queries: int
    share: float


@torch.no_grad()
def per_class(values_Q: Tensor, labels_Q: Tensor) -> tuple[Tensor, Tensor]:
    """(labels_C, mean_C): the mean of each class's values, m_c = Σ_{q in c} v_q / n_c, in float64.

    NaN stands for a query that says nothing (none else of its class is there) and is left out; the mean of
    a class of such queries only is NaN.
    """
    labels_C, place_Q = torch.unique(labels_Q, return_inverse=True)
    said_Q = ~values_Q.isnan()
    value_Q = values_Q.double().masked_fill(~said_Q, 0.0)
    sums_C = torch.zeros(len(labels_C), dtype=torch.float64, device=values_Q.device)
    sums_C.index_add_(0, place_Q, value_Q)
    counts_C = torch.bincount(place_Q[said_Q], minlength=len(labels_C))
    return labels_C, sums_C / counts_C  # 0 / 0 is the NaN that is promised


@torch.no_grad()
def confusions(labels_Q: Tensor, nearest_labels_Q: Tensor, top: int) -> list[Confusion]:
    """The `top` most frequent wrong first neighbours, by count, then by share of the class's queries, then by
    the labels.

    Hand over only queries with a match: the others have no right neighbour to find.
    """
    if labels_Q.shape != nearest_labels_Q.shape:
        raise ValueError(
            f"every query needs a nearest label; got {len(labels_Q)} queries and {len(nearest_labels_Q)}"
        )
    labels_C, counts_C = torch.unique(labels_Q, return_counts=True)
    size = dict(zip(labels_C.tolist(), counts_C.tolist(), strict=True))
    wrong_Q = labels_Q != nearest_labels_Q
    cells = torch.stack([labels_Q[wrong_Q], nearest_labels_Q[wrong_Q]], dim=1)
    cell_P2, count_P = torch.unique(cells, dim=0, return_counts=True)
    found = [
        Confusion(of, taken_for, count, count / size[of])
        for (of, taken_for), count in zip(cell_P2.tolist(), count_P.tolist(), strict=True)
    ]
    return sorted(found, key=lambda pair: (-pair.queries, -pair.share, pair.of, pair.taken_for))[:top]
