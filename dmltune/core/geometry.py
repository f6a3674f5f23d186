"""Distances, normalisations, pair masks, greedy k-center and the covering radius.

B samples, R references, N points, P cover points, D dimensions, C classes; `...` are leading (class)
dimensions. Everything computes in the dtype it is given; half types are raised to float32.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dmltune.core.fixed_shapes import fixed_shapes
from dmltune.core.plain_graph import plain_graph

_CANCELLED = 1e-2  # squared distances below this share of the squared norms lost digits: they are recomputed
_ZERO = 1e-14  # share of the squared norms below which a float64 square is 0
_BLOCK = 1 << 22  # numbers held at once when single entries are computed again


def pairwise_distance(x_BD: Tensor, y_RD: Tensor, squared: bool = False) -> Tensor:
    """Return d_ij = ‖x_i − y_j‖ (or its square), (..., B, R). The gradient at distance 0 is 0.

    ‖x‖² + ‖y‖² − 2⟨x, y⟩ of the centred points, one matrix product forward and two backward. The few entries
    that cancellation spoils are computed from the differences: near-zero distances are accurate too.
    """
    x_BD, y_RD = at_least_float32(x_BD), at_least_float32(y_RD)
    if plain_graph():
        return _plain_distance(x_BD, y_RD, squared)
    function = _WideDistance if fixed_shapes(x_BD) else _Distance
    distance_BR: Tensor = function.apply(x_BD, another(y_RD, x_BD), squared)
    return distance_BR


def another(y: Tensor, x: Tensor) -> Tensor:
    """Return y, as a view if it is x: torch.compile takes no tensor twice as an argument of a function."""
    return y.view_as(y) if y is x and torch.compiler.is_compiling() else y


def _plain_distance(x_BD: Tensor, y_RD: Tensor, squared: bool) -> Tensor:
    """Return the same numbers from float64 products, without a branch."""
    x, y = x_BD.double(), y_RD.double()
    norms_BR = x.square().sum(-1).unsqueeze(-1) + y.square().sum(-1).unsqueeze(-2)
    square_BR = (norms_BR - 2 * (x @ y.mT)).clamp(min=0)
    return (square_BR if squared else square_BR.sqrt()).to(x_BD.dtype)


class _Distance(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_BD: Tensor, y_RD: Tensor, squared: bool) -> Tensor:
        scale = _power_of_two_scale(x_BD, y_RD)
        if scale != 1:
            x_BD, y_RD = x_BD / scale, y_RD / scale
        centre_1D = y_RD.mean(-2, keepdim=True) if y_RD.shape[-2] else y_RD.new_zeros(())
        xc_BD, yc_RD = x_BD - centre_1D, y_RD - centre_1D
        norms_BR = xc_BD.square().sum(-1).unsqueeze(-1) + yc_RD.square().sum(-1).unsqueeze(-2)
        square_BR = torch.sub(norms_BR, xc_BD @ yc_RD.mT, alpha=2)
        spoilt = (square_BR < _CANCELLED * norms_BR).nonzero(as_tuple=True)
        for part in _blocks(spoilt, x_BD.shape[-1]):
            square_BR[part] = _difference(x_BD, y_RD, part).square().sum(-1)
        value_BR = square_BR if squared else square_BR.sqrt()
        ctx.squared, ctx.scale, ctx.spoilt = squared, scale, spoilt
        ctx.save_for_backward(x_BD, y_RD, xc_BD, yc_RD, value_BR)
        return value_BR if scale == 1 else value_BR * (scale * scale if squared else scale)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_BR: Tensor) -> tuple[Tensor, Tensor, None]:
        """∂L/∂x_i = Σ_j w_ij (x_i − y_j) with w = g/d, or 2g for the square."""
        x_BD, y_RD, xc_BD, yc_RD, value_BR = ctx.saved_tensors
        if ctx.squared:
            weight_BR = grad_BR * (2 * ctx.scale)
        else:
            # a subgradient: the norm has no gradient at 0
            weight_BR = torch.where(value_BR > 0, grad_BR / value_BR, 0)
        spoilt_weight = weight_BR[ctx.spoilt]
        weight_BR[ctx.spoilt] = 0
        grad_x_BD = weight_BR.sum(-1, keepdim=True) * xc_BD - weight_BR @ yc_RD
        grad_y_RD = weight_BR.sum(-2).unsqueeze(-1) * yc_RD - weight_BR.mT @ xc_BD
        done = 0
        for part in _blocks(ctx.spoilt, x_BD.shape[-1]):
            size = len(part[0])
            pull = spoilt_weight[done : done + size].unsqueeze(-1) * _difference(x_BD, y_RD, part)
            done += size
            grad_x_BD.index_put_((*part[:-2], part[-2]), pull, accumulate=True)
            grad_y_RD.index_put_((*part[:-2], part[-1]), -pull, accumulate=True)
        return grad_x_BD, grad_y_RD, None


class _WideDistance(torch.autograd.Function):
    """The same from float64 products, where the entries that float32 spoils cannot be picked out.

    Squares below 1e-14 of the squared norms are 0: the distance is within the rounding of float32 points.
    """

    @staticmethod
    def forward(ctx: Any, x_BD: Tensor, y_RD: Tensor, squared: bool) -> Tensor:
        x, y = _wide(x_BD), _wide(y_RD)
        centre = y.mean(-2, keepdim=True) if y.shape[-2] else 0
        x, y = x - centre, y - centre
        norms_BR = x.square().sum(-1).unsqueeze(-1) + y.square().sum(-1).unsqueeze(-2)
        square_BR = torch.sub(norms_BR, x @ y.mT, alpha=2)
        # with this test a square that is not a number stays one
        square_BR = square_BR.masked_fill_(square_BR < _ZERO * norms_BR, 0)
        value_BR = (square_BR if squared else square_BR.sqrt_()).to(x_BD.dtype)
        ctx.squared = squared
        ctx.save_for_backward(x_BD, y_RD, value_BR)
        return value_BR

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        x_BD, y_RD, value_BR = ctx.saved_tensors
        slope_BR = 2 * gradients[0] if ctx.squared else gradients[0] / value_BR
        # a subgradient: the norm has no gradient at 0
        weight_BR = _wide(torch.where(value_BR == 0, 0, slope_BR))
        x, y = _wide(x_BD), _wide(y_RD)
        grad_x = weight_BR.sum(-1, keepdim=True) * x - weight_BR @ y
        grad_y = weight_BR.sum(-2).unsqueeze(-1) * y - weight_BR.mT @ x
        return grad_x.to(x_BD.dtype), grad_y.to(y_RD.dtype), None


def _wide(x: Tensor) -> Tensor:
    return x if x.device.type == "mps" else x.double()  # which has no float64


def lip(x: Tensor) -> Tensor:
    """x / max(1, ‖x‖) over the last dimension (§3.2.4); Lipschitz continuous, finite for any finite x."""
    x = at_least_float32(x)
    return x / _norm(x).clamp(min=1)


def l2_normalise(x: Tensor) -> Tensor:
    """x / ‖x‖ over the last dimension; zero stays zero, with gradient zero."""
    x = at_least_float32(x)
    norm = _norm(x)
    zero = norm == 0  # with this test a norm that is not a number gives NaN in the result
    return torch.where(zero, 0, x / torch.where(zero, 1, norm))


def pair_masks(labels_B: Tensor, ref_labels_R: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return (positive_BR, negative_BR): same and other label, without pairs of a sample with itself.

    A point with a label below 0 takes no part: its pairs are neither.
    """
    other_R = labels_B if ref_labels_R is None else ref_labels_R
    same_BR = labels_B.unsqueeze(1) == other_R
    different_BR = ~same_BR
    if any_left_out(labels_B) or any_left_out(other_R):
        part_BR = (labels_B >= 0).unsqueeze(1) & (other_R >= 0)
        same_BR, different_BR = same_BR & part_BR, different_BR & part_BR
    if ref_labels_R is None:
        same_BB = same_BR
        same_BR = same_BB & ~torch.eye(len(labels_B), dtype=torch.bool, device=labels_B.device)
    return same_BR, different_BR


def any_left_out(labels_B: Tensor) -> bool:
    """Return whether points may take no part: those with a label below 0; True where only masks may tell."""
    return fixed_shapes(labels_B) or bool((labels_B < 0).any())


def taking_part(labels_B: Tensor) -> Tensor:
    """Return the number of points that take part, at least 1 for use as a divisor."""
    return (labels_B >= 0).sum().clamp(min=1)


@torch.no_grad()
def greedy_k_center(
    pool_ND: Tensor, cover_PD: Tensor | None, k: int, valid_N: Tensor | None = None
) -> Tensor:
    """Pick k times the pool point farthest from cover ∪ picks (algorithm 2); indices (k,) in order.

    Cover None is one zero vector. A leading class dimension is a batch: (C, N, D), (C, P, D), (C, N) → (C,
    k). Points that are not `valid` are never picked; where fewer than k are, their picks repeat in order.
    Ties go to the lower index.
    """
    count = pool_ND.shape[-2]
    if not 0 <= k <= count:
        raise ValueError(f"k must be between 0 and the {count} points of the pool; got {k}")
    if cover_PD is None:
        cover_PD = pool_ND.new_zeros((*pool_ND.shape[:-2], 1, pool_ND.shape[-1]))
    pool_ND = at_least_float32(pool_ND)
    near_N = pairwise_distance(pool_ND, cover_PD).amin(-1)
    valid_N = torch.ones_like(near_N, dtype=torch.bool) if valid_N is None else valid_N
    free_N = valid_N.clone()
    picks = []
    for _ in range(k):
        pick_1 = torch.where(free_N, near_N, -1).argmax(-1, keepdim=True)
        free_N.scatter_(-1, pick_1, False)
        picks.append(pick_1)
        picked_1D = torch.take_along_dim(pool_ND, pick_1.unsqueeze(-1), dim=-2)
        near_N = torch.minimum(near_N, _norm(pool_ND - picked_1D).squeeze(-1))
    if not picks:
        return torch.zeros((*pool_ND.shape[:-2], 0), dtype=torch.long, device=pool_ND.device)
    order = torch.arange(k, device=pool_ND.device) % valid_N.sum(-1, keepdim=True).clamp(min=1)
    return torch.cat(picks, -1).gather(-1, order)


@torch.no_grad()
def covering_radius(emb_ND: Tensor, labels_N: Tensor) -> float:
    """Return the mean over classes and over k = 1..n of the radius of k centres of n points (§3.3.1).

    The first centre is the best single one (least largest distance), each further one the point farthest from
    those before it: greedy, so at most twice the optimum, and independent of the order of the points but for
    ties.
    """
    counts_C = torch.unique(labels_N, return_counts=True)[1]
    order_N = labels_N.argsort(stable=True)
    starts_C = counts_C.cumsum(0) - counts_C
    total = 0.0
    for size in torch.unique(counts_C).tolist():
        for starts in torch.split(starts_C[counts_C == size], max(1, _BLOCK // (size * size))):
            index_CN = order_N[starts.unsqueeze(1) + torch.arange(size, device=starts.device)]
            points_CND = emb_ND[index_CN]
            total += float(_mean_radius(pairwise_distance(points_CND, points_CND)).double().sum())
    return total / max(1, len(counts_C))


def _mean_radius(distance_CNN: Tensor) -> Tensor:
    pick_C = distance_CNN.amax(-1).argmin(-1)
    near_CN = torch.full_like(distance_CNN[:, 0], torch.inf)
    radii = []
    for _ in range(distance_CNN.shape[-1]):
        row_C1N = torch.take_along_dim(distance_CNN, pick_C.view(-1, 1, 1), dim=1)
        near_CN = torch.minimum(near_CN, row_C1N.squeeze(1))
        radius_C, pick_C = near_CN.max(-1)
        radii.append(radius_C)
    return torch.stack(radii).mean(0)


def _norm(x: Tensor) -> Tensor:
    """‖x‖ over the last dimension, kept; scaled so that squares neither overflow nor vanish."""
    largest = x.detach().abs().amax(-1, keepdim=True).clamp(min=torch.finfo(x.dtype).tiny)
    norm: Tensor = largest * torch.linalg.vector_norm(x / largest, dim=-1, keepdim=True)
    return norm


def _power_of_two_scale(x: Tensor, y: Tensor) -> float:
    """Return the exact divisor that keeps squares in range; 1 for ordinary numbers."""
    largest = max((float(t.detach().abs().max()) if t.numel() else 0.0) for t in (x, y))
    if largest == 0 or 1e-6 < largest < 1e15 or largest != largest or largest == float("inf"):
        return 1.0
    return float(2.0 ** round(torch.tensor(largest, dtype=torch.float64).log2().item()))


def _difference(x_BD: Tensor, y_RD: Tensor, part: tuple[Tensor, ...]) -> Tensor:
    return x_BD[(*part[:-2], part[-2])] - y_RD[(*part[:-2], part[-1])]


def _blocks(indices: tuple[Tensor, ...], dim: int) -> list[tuple[Tensor, ...]]:
    size = max(1, _BLOCK // max(1, dim))
    return list(zip(*(torch.split(index, size) for index in indices), strict=True)) if len(indices[0]) else []


def at_least_float32(x: Tensor) -> Tensor:
    """Raise half types to float32; float64 is never lowered."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def finite(emb: Tensor) -> Tensor:
    """Return the embeddings; a ValueError if one is not finite."""
    if not bool(emb.isfinite().all()):
        raise ValueError("embeddings must be finite")
    return emb
