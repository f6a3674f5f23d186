"""Candidates for the nearest neighbours: float32 products, and a bound on their rounding.

Q queries and G gallery points of one tile, D dimensions, C candidates held, K the deepest rank wanted. A pair
has the score −d²/2 = x·y − ‖x‖²/2 − ‖y‖²/2: one product of rows [x, −‖x‖²/2, 1] and [y, 1, −‖y‖²/2], higher
is nearer, the same from both sides. With x, y counted from a common centre and u = 2⁻²⁴, an inner product of
n terms is off by at most γ_n Σ|terms|, γ_n = nu/(1 − nu), in whatever order it is summed (Higham, *Accuracy
and Stability*, §3.1). So a score is off by at most E_i = γ_{D+9}/2 · (‖x_i‖ + max‖y‖)². Many dimensions are
summed in parts: then the length of a part and the number of parts stand in place of D.

The true k nearest score at least T_i − E_i if k points were seen to score T_i or more. Points that score
below T_i − 2E_i are not among them; all others are candidates.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator

import torch
from torch import Tensor

LANES = 32  # blocks of points are filled up to a multiple of this many rows, with points infinitely far
_UNIT = 2.0**-24
_SPARE = 8  # least number of candidates held beyond the depth, for those that rounding hides
_SHORT = 64  # up to this many candidates are always sorted; more are sorted once, at the end
_PART = 1024  # dimensions that are summed in one product
_PIECE = 1 << 18  # numbers raised to float64 at once: they stay in the cache


def raised(x: Tensor, least: torch.dtype = torch.float32) -> Tensor:
    """Return half types as float32, integers as float64, or as `least` if that is more."""
    wide = torch.float64 if not x.is_floating_point() else torch.promote_types(x.dtype, torch.float32)
    return x.to(torch.promote_types(wide, least))


class Frame:
    """Origin and unit of coordinates that float32 represents well."""

    def __init__(self, gallery: Tensor) -> None:
        sample = gallery[:: -(-len(gallery) // 512)]
        self.centre_D = raised(raised(sample, torch.float64).mean(0).to(gallery.dtype))
        self.unit = 1.0

    def norms(self, x_ND: Tensor) -> Tensor:
        """Return ‖x − centre‖² in float64 of points that must be finite."""
        step = max(1, _PIECE // max(1, x_ND.shape[1]))
        norm_N = torch.empty(len(x_ND), dtype=torch.float64, device=x_ND.device)
        for at in range(0, len(x_ND), step):
            centred_ND = raised(x_ND[at : at + step], self.centre_D.dtype) - self.centre_D
            norm_N[at : at + step] = centred_ND.double().square_().sum(1)
        if not bool(norm_N.isfinite().all()):
            raise ValueError("embeddings must be finite")
        return norm_N

    def write(self, x_ND: Tensor, out: Tensor) -> None:
        """Write x − centre in the unit, as float32."""
        x_ND = raised(x_ND, self.centre_D.dtype)
        if x_ND.dtype == out.dtype == self.centre_D.dtype:
            torch.sub(x_ND, self.centre_D, out=out)
        else:
            out.copy_((x_ND - self.centre_D).mul_(self.unit))
            return
        if self.unit != 1:
            out.mul_(self.unit)


class Points:
    """Rows for the product, made block by block: no copy of all."""

    def __init__(self, x_ND: Tensor, frame: Frame, order_N: Tensor | None) -> None:
        self.x_ND, self.frame, self.order_N = x_ND, frame, order_N
        norm_N = frame.norms(x_ND)
        self.norm_N = norm_N if order_N is None else norm_N[order_N]

    def __len__(self) -> int:
        return len(self.x_ND)

    def rows(self, start: int, stop: int, side: int, out: Tensor) -> Tensor:
        """Return [x, −‖x‖²/2, 1] of side 0, [y, 1, −‖y‖²/2] of side 1, in `out`."""
        count, dim = stop - start, self.x_ND.shape[1]
        rows = out[: filled(count) * (dim + 2)].view(-1, dim + 2)
        block = slice(start, stop) if self.order_N is None else self.order_N[start:stop]
        self.frame.write(self.x_ND[block], rows[:count, :dim])
        rows[:count, dim + side] = self.norm_N[start:stop] * self.frame.unit * (-0.5 * self.frame.unit)
        rows[count:, :dim] = 0
        rows[count:, dim + side] = -torch.inf
        rows[:, dim + 1 - side] = 1
        return rows


def filled(count: int) -> int:
    return -(-count // LANES) * LANES


def scores(x_QD: Tensor, y_GD: Tensor, out: Tensor, spare: Tensor) -> Tensor:
    """Return all products of the rows in `out`; `spare`, as large, is for many parts only."""
    shape = len(x_QD), len(y_GD)
    tile_QG, part_QG = (buffer[: shape[0] * shape[1]].view(shape) for buffer in (out, spare))
    with full_precision(x_QD.device):
        torch.mm(x_QD[:, :_PART], y_GD[:, :_PART].T, out=tile_QG)
        for at in range(_PART, x_QD.shape[1], _PART):
            part = slice(at, at + _PART)
            tile_QG += torch.mm(x_QD[:, part], y_GD[:, part].T, out=part_QG)
    return tile_QG


def errors(query: Points, gallery: Points) -> Tensor:
    """Return E of every query; choose the unit first so that squares neither overflow nor vanish."""
    frame, columns = query.frame, query.x_ND.shape[1] + 2
    terms = min(columns, _PART) + -(-columns // _PART) + 6
    largest = float(torch.cat([query.norm_N, gallery.norm_N]).amax()) ** 0.5
    if largest > 0 and not 2.0**-16 < largest < 2.0**16:
        frame.unit = 2.0 ** -max(-500, round(math.log2(largest)))
    reach_Q = (query.norm_N.sqrt() + gallery.norm_N.amax().sqrt()) * frame.unit
    gamma = terms * _UNIT / (1 - terms * _UNIT)
    return (gamma / 2 * 1.0001 * reach_Q.square() + terms * 2.0**-140).to(torch.float32)


def candidate_count(deepest: int) -> int:
    """Return how many candidates a block of queries holds."""
    return deepest + max(_SPARE, deepest // 8) + 1


class Best:
    """The candidates of one block of queries, from all tiles seen so far."""

    def __init__(self, depth_Q: Tensor, error_Q: Tensor) -> None:
        self.depth_Q, self.error_Q = depth_Q, error_Q
        self.deepest = int(depth_Q.amax())
        count = candidate_count(self.deepest)
        self.score_QC = error_Q.new_full((len(depth_Q), count), -torch.inf)
        self.index_QC = depth_Q.new_zeros((len(depth_Q), count))
        self.floor_Q = torch.full_like(error_Q, -torch.inf)
        self.seen = 0
        self.in_order = count <= _SHORT

    def take(self, tile_QG: Tensor, start: int) -> None:
        """Take scores of the gallery points from `start` on; those below the floor are only compared.

        A tile is reduced to the peaks of groups of points, larger ones if fewer candidates are expected. If
        groups would hold one point each, all scores are merged.
        """
        tile_QG = tile_QG[: len(self.depth_Q)]
        width = tile_QG.shape[1]
        group = LANES
        while group > 1 and group * 4 * self.deepest > self.seen + width:
            group //= 2
        if group == 1 or not self._pick(tile_QG.view(-1, group, width // group), start):
            index_G = torch.arange(start, start + width, device=tile_QG.device)
            self._merge(slice(None), tile_QG, index_G.expand(len(tile_QG), -1))
        self.seen += width

    def settle(self) -> None:
        """Sort the candidates by their scores: the nearest first."""
        if not self.in_order:
            self.score_QC, place_QC = self.score_QC.sort(dim=1, descending=True)
            self.index_QC = self.index_QC.gather(1, place_QC)
            self._raise_floor(slice(None), self.score_QC)

    def unsure(self, available: int) -> Tensor:
        """Return where more candidates lay above the floor than are held."""
        full_Q = self.score_QC[:, -1] >= self.floor_Q
        return full_Q & (self.score_QC.shape[1] < available)

    def _pick(self, group_QSM: Tensor, start: int) -> bool:
        """Return False if most groups have a candidate, where picking is no gain."""
        if group_QSM.stride(0) == 1:  # read memory in its order on this side of the product too
            peak_QM = group_QSM.permute(1, 2, 0).amax(0).T.contiguous()
        else:
            peak_QM = group_QSM.amax(1)
        if not self.seen:  # `deepest` groups peak at the floor or above: as many points score so
            self._raise_floor(slice(None), peak_QM.topk(self.deepest).values)
        row_H, place_H = (peak_QM >= self.floor_Q.unsqueeze(1)).nonzero(as_tuple=True)
        if 2 * len(row_H) > peak_QM.numel():
            return False
        score_HS = group_QSM[row_H, :, place_H]
        hit_P, lane_P = (score_HS >= self.floor_Q[row_H].unsqueeze(1)).nonzero(as_tuple=True)
        if len(hit_P):
            rows, slot_P, place_P, most = slots(row_H[hit_P])
            score_RN = self.score_QC.new_full((len(rows), most), -torch.inf)
            score_RN[slot_P, place_P] = score_HS[hit_P, lane_P]
            index_RN = self.index_QC.new_zeros((len(rows), most))
            index_RN[slot_P, place_P] = start + lane_P * group_QSM.shape[2] + place_H[hit_P]
            self._merge(rows, score_RN, index_RN)
        return True

    def _merge(self, rows: Tensor | slice, score_RN: Tensor, index_RN: Tensor) -> None:
        count = self.score_QC.shape[1]
        joined_RN = torch.cat([self.score_QC[rows], score_RN], 1)
        joined_RC, place_RC = joined_RN.topk(count, sorted=self.in_order)
        old_RC = self.index_QC[rows].gather(1, place_RC.clamp(max=count - 1))
        new_RC = index_RN.gather(1, (place_RC - count).clamp(min=0))
        self.index_QC[rows] = torch.where(place_RC < count, old_RC, new_RC)
        self.score_QC[rows] = joined_RC
        if self.in_order:
            self._raise_floor(rows, joined_RC)
        else:  # no score below those held will be held
            floor_R = joined_RC.amin(1).clamp(min=torch.finfo(torch.float32).min)
            self.floor_Q[rows] = torch.maximum(self.floor_Q[rows], floor_R)

    def _raise_floor(self, rows: Tensor | slice, score_RC: Tensor) -> None:
        """Raise the floor from scores in descending order; a score of −∞ marks an empty slot."""
        kth_R = score_RC.gather(1, self.depth_Q[rows].unsqueeze(1) - 1).squeeze(1)
        floor_R = (kth_R - 2 * self.error_Q[rows]).clamp(min=torch.finfo(torch.float32).min)
        self.floor_Q[rows] = torch.maximum(self.floor_Q[rows], floor_R)


def slots(row_P: Tensor) -> tuple[Tensor, Tensor, Tensor, int]:
    """Return rows that occur, line and place in the line of each sorted pair, and longest line."""
    rows, slot_P, count_R = torch.unique_consecutive(row_P, return_inverse=True, return_counts=True)
    first_R = count_R.cumsum(0) - count_R
    place_P = torch.arange(len(row_P), device=row_P.device) - first_R[slot_P]
    return rows, slot_P, place_P, int(count_R.amax())


@contextlib.contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """Compute products of float32 in float32: no TF32, no bfloat16, no autocast."""
    backends = (torch.backends.mkldnn.matmul, torch.backends.cuda.matmul)  # type: ignore[attr-defined]
    before = [backend.fp32_precision for backend in backends]
    try:
        for backend in backends:
            backend.fp32_precision = "ieee"
        with torch.autocast(device.type, enabled=False):
            yield
    finally:
        for backend, precision in zip(backends, before, strict=True):
            backend.fp32_precision = precision
