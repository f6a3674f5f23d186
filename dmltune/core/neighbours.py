"""Exact nearest neighbours, streaming over blocks of queries and of gallery points.

Q queries of one block, G gallery points, K neighbours wanted, P pairs of a query and a gallery point, D
dimensions. Neighbours are ranked by their squared distance Σ (x − y)² in float64, ties by the lower gallery
index. Float32 products choose candidates (candidates.py); differences rank those that rounding may have
swapped. If more candidates lie within the rounding than a block holds (ties, tight clusters), float64
products find all that may be nearer than the K-th known.

When the queries are each other's gallery a product serves both sides, and half of them are computed. With a
sharded gallery every rank searches its part and the results are merged: the same distances, the same order.
faiss is not used: on a CPU its flat search takes as long as the bare product, with float32's ranking
(benchmarks/retrieval.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from dmltune.core import collectives
from dmltune.core.candidates import LANES, Best, Frame, Points, candidate_count, errors, filled, scores
from dmltune.core.close_calls import CloseCalls, by_distance, by_keys, squared_distances

_TILE = 1 << 22  # scores held at once
_STATE_BYTES = 1 << 27
"""Memory for the candidates of all queries; beyond it queries are finished block by block."""
_TOGETHER = 256  # queries of one exact search by float64 products


@dataclass(frozen=True)
class Block:
    """Neighbours of the queries `row_Q`: index −1 and distance ∞ behind a query's depth or the gallery.

    Without `distances` squared_QK is only good for ranking.
    """

    row_Q: Tensor
    index_QK: Tensor
    squared_QK: Tensor


@torch.no_grad()
def nearest_neighbours(
    query: Tensor, gallery: Tensor | None, k: int, *, sharded: bool = False
) -> tuple[Tensor, Tensor]:
    """Return gallery indices (Q, k) and squared distances (Q, k, float64); −1 and ∞ behind the end.

    Without a gallery the queries are each other's, and none is its own neighbour. `sharded`: over the ranks
    of torch.distributed, each with its part of the gallery (and all the queries; without a gallery its part
    of the points, whose neighbours it gets); indices count through the parts.
    """
    index_QK = torch.full((len(query), k), -1, dtype=torch.long, device=query.device)
    squared_QK = torch.full((len(query), k), torch.inf, dtype=torch.float64, device=query.device)
    depth_Q = torch.full((len(query),), k, device=query.device)
    for block in blocks(query, gallery, depth_Q, distances=True, sharded=sharded):
        depth = block.index_QK.shape[1]
        index_QK[block.row_Q, :depth] = block.index_QK
        squared_QK[block.row_Q, :depth] = block.squared_QK
    return index_QK, squared_QK


@torch.no_grad()
def blocks(
    query: Tensor,
    gallery: Tensor | None,
    depth_Q: Tensor,
    *,
    own_Q: Tensor | None = None,
    distances: bool = False,
    sharded: bool = False,
) -> Iterator[Block]:
    """Yield every query once, in blocks of any order, with as many neighbours as its depth.

    `own_Q`: the place of each query in the gallery, which is no neighbour of it (−1: it has none).
    """
    if sharded and collectives.world_size() > 1:
        yield from _sharded(query, gallery, depth_Q)
    elif gallery is None:
        own_Q = torch.arange(len(query), device=query.device)
        yield from _Search(query, query, depth_Q, own_Q, together=True).blocks(distances)
    else:
        own_Q = torch.full_like(depth_Q, -1) if own_Q is None else own_Q
        yield from _Search(query, gallery, depth_Q, own_Q).blocks(distances)


class _Search:
    """own_Q: the gallery index of the query itself, or −1. together: the gallery is the queries."""

    def __init__(
        self, query: Tensor, gallery: Tensor, depth_Q: Tensor, own_Q: Tensor, together: bool = False
    ) -> None:
        self.query, self.gallery, self.own_Q, self.together = query, gallery, own_Q, together
        self.depth_Q = depth_Q.clamp(max=len(gallery)).clamp(min=1)
        self.order_Q = torch.arange(len(query), device=query.device)
        self.ordered = len(query) > 0 and int(self.depth_Q.amax()) > 2 * float(self.depth_Q.double().mean())
        if self.ordered:  # a block is as deep as the deepest of it
            self.order_Q = self.depth_Q.argsort(stable=True)
        self.some_own = together or bool((own_Q >= 0).any())

    @cached_property
    def close_calls(self) -> CloseCalls:
        return CloseCalls(self.query, self.gallery, self.own_Q, self.frame, int(self.depth_Q.amax()))

    def blocks(self, distances: bool) -> Iterator[Block]:
        if not len(self.query) or not len(self.gallery):
            return
        self.frame = Frame(self.gallery)
        order = self.order_Q if self.ordered else None
        self.left = Points(self.query, self.frame, order)
        self.right = self.left if self.together else Points(self.gallery, self.frame, None)
        self.error_Q = errors(self.left, self.right)
        for start, stop, best in self._candidates():
            yield self._finish(best, self.order_Q[start:stop], distances)

    def _candidates(self) -> Iterator[tuple[int, int, Best]]:
        """Yield blocks of queries in their order, with the candidates from the whole gallery."""
        count, available = len(self.left), len(self.right)
        depth_Q = self.depth_Q[self.order_Q]
        most = candidate_count(int(depth_Q.amax()))
        typical = candidate_count(math.ceil(float(depth_Q.double().mean()))) if self.ordered else most
        mirrored = self.together and 12 * typical * count <= _STATE_BYTES
        width = self.query.shape[1] + 2
        longest = max(LANES, 4 * _TILE // width)  # blocks of points in many dimensions take room too
        side = min(longest, max(LANES, math.isqrt(_TILE)))
        lines = side if mirrored else max(LANES, min(side, _TILE // most))
        columns = side if mirrored else min(longest, max(LANES, _TILE // min(lines, count)))
        lines, columns = min(lines, filled(count)), min(columns, filled(available))
        left, right, tile, spare = (
            torch.empty(filled(n) * m, dtype=torch.float32, device=self.query.device)
            for n, m in ((lines, width), (columns, width), *[(lines, filled(columns))] * 2)
        )
        open_blocks: dict[int, Best] = {}
        for start in range(0, count, lines):
            stop = min(start + lines, count)
            x_QD = self.left.rows(start, stop, 0, left)
            for first in range(start if mirrored else 0, available, columns):
                last = min(first + columns, available)
                y_GD = self.right.rows(first, last, 1, right)
                tile_QG = scores(x_QD, y_GD, tile, spare)
                if self.some_own:
                    self._forget_own(tile_QG, start, stop, first, last)
                sides = [(start, stop, tile_QG, first), (first, last, tile_QG.T, start)]
                for at, end, side_QG, offset in sides[: 2 if mirrored and first > start else 1]:
                    if at not in open_blocks:
                        open_blocks[at] = Best(depth_Q[at:end], self.error_Q[at:end])
                    open_blocks[at].take(side_QG, offset)
            yield start, stop, open_blocks.pop(start)

    def _forget_own(self, tile_QG: Tensor, start: int, stop: int, first: int, last: int) -> None:
        place_Q = self.own_Q[self.order_Q[start:stop]]
        if self.together:  # both sides are in the same order
            place_Q = torch.arange(start, stop, device=place_Q.device)
        rows = ((place_Q >= first) & (place_Q < last)).nonzero().squeeze(1)
        tile_QG[rows, place_Q[rows] - first] = -torch.inf

    def _finish(self, best: Best, row_Q: Tensor, distances: bool) -> Block:
        """Sort the candidates exactly: runs of scores with gaps below 2E are sorted by distance."""
        best.settle()
        valid_QC = best.score_QC >= best.floor_Q.unsqueeze(1)
        index_QC = self.order_Q[best.index_QC] if self.together and self.ordered else best.index_QC
        gap_QC = best.score_QC[:, :-1] - best.score_QC[:, 1:]
        first_QC, last_QC = torch.ones_like(valid_QC), torch.ones_like(valid_QC)
        first_QC[:, 1:] = (gap_QC > 2 * best.error_Q.unsqueeze(1)) & (not distances)
        last_QC[:, :-1] = first_QC[:, 1:]
        close_QC = valid_QC if distances else valid_QC & ~(first_QC & last_QC)
        line_P, place_P = close_QC.nonzero(as_tuple=True)
        index_P = index_QC[line_P, place_P]
        squared_P = squared_distances(self.query, self.gallery, row_Q[line_P], index_P)
        run_P = first_QC.flatten().cumsum(0).view(first_QC.shape)[line_P, place_P]  # ascending
        order_P = by_keys(index_P, squared_P, run_P)
        index_QC = index_QC.masked_fill(~valid_QC, -1)
        squared_QC = torch.where(valid_QC, 0.0, torch.inf).double()
        index_QC[line_P, place_P], squared_QC[line_P, place_P] = index_P[order_P], squared_P[order_P]
        index_QK, squared_QK = index_QC[:, : best.deepest].clone(), squared_QC[:, : best.deepest].clone()
        unsure = best.unsure(len(self.gallery)).nonzero().squeeze(1)
        for at in range(0, len(unsure), _TOGETHER):
            some = unsure[at : at + _TOGETHER]
            index_QK[some], squared_QK[some] = self.close_calls.nearest(
                row_Q[some], index_QC[some], best.depth_Q[some], best.deepest
            )
        beyond_QK = torch.arange(best.deepest, device=row_Q.device) >= best.depth_Q.unsqueeze(1)
        return Block(row_Q, index_QK.masked_fill(beyond_QK, -1), squared_QK.masked_fill(beyond_QK, torch.inf))


def _sharded(query: Tensor, gallery: Tensor | None, depth_Q: Tensor) -> Iterator[Block]:
    """In each round every rank sends some of its queries (or all send the same) and all search."""
    points = query if gallery is None else gallery
    finite = all(
        bool(part.isfinite().all()) for side in (query, points) for part in torch.split(side, 1 << 14)
    )
    states = collectives.gather(torch.tensor([[len(points), finite]], device=points.device)).tolist()
    if not all(fine for _, fine in states):  # on all ranks, or the others would wait
        raise ValueError("embeddings must be finite")
    sizes = [size for size, _ in states]
    offset = sum(sizes[: collectives.rank()])
    step = max(1, math.isqrt(_TILE))
    if gallery is None:
        step = max(1, step // collectives.world_size())
    for start in range(0, max(sizes) if gallery is None else len(query), step):
        mine = slice(start, min(start + step, len(query)))
        row_Q = torch.arange(len(query), device=query.device)[mine]
        queries, depth, place = query[mine], depth_Q[mine], row_Q + offset
        if gallery is None:
            counts = collectives.gather(torch.tensor([len(row_Q)], device=query.device)).tolist()
            queries, depth, place = (collectives.gather(part) for part in (queries, depth, place))
        own_Q = place - offset
        own_Q = torch.where((own_Q >= 0) & (own_Q < len(points)) & (gallery is None), own_Q, -1)
        deepest = int(depth.amax())
        index_QK = torch.full((len(queries), deepest), -1, device=query.device)
        squared_QK = torch.full((len(queries), deepest), torch.inf, dtype=torch.float64, device=query.device)
        for block in _Search(queries, points, depth, own_Q).blocks(distances=True):
            width = block.index_QK.shape[1]
            index_QK[block.row_Q, :width] = torch.where(block.index_QK < 0, -1, block.index_QK + offset)
            squared_QK[block.row_Q, :width] = block.squared_QK
        all_index, all_squared = collectives.gather_equal(index_QK), collectives.gather_equal(squared_QK)
        ranks = collectives.world_size()
        index_QK, squared_QK = by_distance(
            torch.cat(all_index.chunk(ranks), 1), torch.cat(all_squared.chunk(ranks), 1), deepest
        )
        if gallery is None:
            before = sum(counts[: collectives.rank()])
            index_QK, squared_QK = (part[before : before + len(row_Q)] for part in (index_QK, squared_QK))
        yield Block(row_Q, index_QK, squared_QK)
