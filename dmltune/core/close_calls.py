"""Exact distances from differences in float64, for ties and tight clusters.

Q queries, G gallery points, P pairs, K neighbours wanted, D dimensions. Equal points have the same distance
to the last bit, because every pair is summed alike.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dmltune.core.candidates import Frame, raised, slots

_PIECE = 1 << 18  # differences held at once: they stay in the cache
_TILE = 1 << 21  # float64 products, or coordinates, held at once


def squared_distances(query: Tensor, gallery: Tensor, row_P: Tensor, index_P: Tensor) -> Tensor:
    """Return Σ (x − y)² in float64 of the pairs (row, index)."""
    squared_P = torch.empty(len(row_P), dtype=torch.float64, device=query.device)
    step = max(1, _PIECE // max(1, query.shape[1]))
    for at in range(0, len(row_P), step):
        piece = slice(at, at + step)
        difference = raised(query[row_P[piece]], torch.float64)
        difference = difference.sub_(raised(gallery[index_P[piece]], torch.float64))
        squared_P[piece] = difference.square_().sum(1)
    return squared_P


def by_keys(*keys: Tensor) -> Tensor:
    """Return the order by the last key, then by the one before, …, along the last dimension."""
    order = keys[0].argsort(stable=True)
    for key in keys[1:]:
        order = order.gather(-1, key.gather(-1, order).argsort(stable=True))
    return order


def by_distance(index_QN: Tensor, squared_QN: Tensor, depth: int) -> tuple[Tensor, Tensor]:
    """Return the first of every line by distance and index, −1 where no distance is finite."""
    order_QN = by_keys(index_QN, squared_QN)
    order_QN = order_QN[:, :depth]
    squared_QK = squared_QN.gather(1, order_QN)
    index_QK = index_QN.gather(1, order_QN).masked_fill(squared_QK == torch.inf, -1)
    short = depth - index_QK.shape[1]
    return (
        torch.nn.functional.pad(index_QK, (0, short), value=-1),
        torch.nn.functional.pad(squared_QK, (0, short), value=torch.inf),
    )


class CloseCalls:
    """Exact search for queries with more candidates than a block holds.

    Float64 products find all gallery points that may be no farther than the K-th known, differences rank
    them, and the K-th comes nearer tile by tile. Of equal gallery points only the first K + 1 can be among
    the K nearest (one may be the query itself).
    """

    def __init__(self, query: Tensor, gallery: Tensor, own_Q: Tensor, frame: Frame, deepest: int) -> None:
        self.query, self.gallery, self.own_Q = query, gallery, own_Q
        self.centre_D = frame.centre_D.double()
        self.reach = float(frame.norms(gallery).amax()) ** 0.5
        self.retained_G = first_of_equals(gallery, deepest + 1)

    def nearest(
        self, row_Q: Tensor, known_QC: Tensor, depth_Q: Tensor, deepest: int
    ) -> tuple[Tensor, Tensor]:
        """Return indices and distances of the queries `row_Q` with the candidates `known_QC`."""
        kth_Q1 = depth_Q.unsqueeze(1) - 1
        row_P = row_Q.repeat_interleave(known_QC.shape[1])
        known_P = squared_distances(self.query, self.gallery, row_P, known_QC.flatten())
        limit_Q1 = known_P.view(known_QC.shape).sort(1).values.gather(1, kth_Q1)
        x_QD = raised(self.query[row_Q], torch.float64) - self.centre_D
        norm_Q1 = x_QD.square().sum(1, keepdim=True)
        error_Q1 = 4 * (x_QD.shape[1] + 8) * 2.0**-53 * (norm_Q1.sqrt() + self.reach).square() + 1e-300
        index_QK = row_Q.new_full((len(row_Q), deepest), -1)
        squared_QK = x_QD.new_full((len(row_Q), deepest), torch.inf)
        step = max(1, _TILE // max(x_QD.shape))
        for at in range(0, len(self.retained_G), step):
            others_N = self.retained_G[at : at + step]
            y_ND = raised(self.gallery[others_N], torch.float64) - self.centre_D
            fast_QN = torch.addmm(norm_Q1 + y_ND.square().sum(1), x_QD, y_ND.T, alpha=-2)
            near_QN = (fast_QN <= limit_Q1 + error_Q1) & (others_N != self.own_Q[row_Q].unsqueeze(1))
            line_P, place_P = near_QN.nonzero(as_tuple=True)
            if len(line_P):
                squared_P = squared_distances(self.query, self.gallery, row_Q[line_P], others_N[place_P])
                index_QN, squared_QN = table(line_P, others_N[place_P], squared_P, len(row_Q))
                index_QK, squared_QK = by_distance(
                    torch.cat([index_QK, index_QN], 1), torch.cat([squared_QK, squared_QN], 1), deepest
                )
                limit_Q1 = torch.minimum(limit_Q1, squared_QK.gather(1, kth_Q1))
        return index_QK, squared_QK


def table(line_P: Tensor, index_P: Tensor, squared_P: Tensor, lines: int) -> tuple[Tensor, Tensor]:
    """Return pairs in the order of their lines as two tables, filled up with −1 and ∞."""
    used, slot_P, place_P, most = slots(line_P)
    index_QN = index_P.new_full((lines, most), -1)
    squared_QN = squared_P.new_full((lines, most), torch.inf)
    index_QN[used[slot_P], place_P] = index_P
    squared_QN[used[slot_P], place_P] = squared_P
    return index_QN, squared_QN


def first_of_equals(points_ND: Tensor, most: int) -> Tensor:
    """Return the ascending indices of all points with fewer than `most` equal ones before them."""
    generator = torch.Generator().manual_seed(0)
    odd_D = (torch.randint(1 << 62, (points_ND.shape[1],), generator=generator) | 1).to(points_ND.device)
    step = max(1, _PIECE // max(1, points_ND.shape[1]))
    hash_N = torch.empty(len(points_ND), dtype=torch.int64, device=points_ND.device)
    for at in range(0, len(points_ND), step):
        bits_ND = (raised(points_ND[at : at + step], torch.float64) + 0.0).view(torch.int64)  # −0 is 0
        hash_N[at : at + step] = ((bits_ND ^ (bits_ND >> 29)) * odd_D).sum(1)
    hash_N, order_N = hash_N.sort(stable=True)
    _, group_N, count_C = torch.unique_consecutive(hash_N, return_inverse=True, return_counts=True)
    first_N = (count_C.cumsum(0) - count_C)[group_N]
    late = ((torch.arange(len(hash_N), device=hash_N.device) - first_N) >= most).nonzero().squeeze(1)
    retained = torch.ones(len(points_ND), dtype=torch.bool, device=points_ND.device)
    for at in range(0, len(late), step):
        piece = late[at : at + step]
        mine, theirs = order_N[piece], order_N[first_N[piece]]
        retained[mine[(points_ND[mine] == points_ND[theirs]).all(1)]] = False  # a hash alone proves nothing
    return retained.nonzero().squeeze(1)
