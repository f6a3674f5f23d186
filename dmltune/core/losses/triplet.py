"""The triplet loss over all triplets, without a list of them.

B samples, R references, P the largest number of positives of a sample; a anchor, p positive, n negative.
"""

from __future__ import annotations

from typing import Annotated, Any

import torch
from annotated_types import Ge
from torch import Tensor

from dmltune.core.fixed_shapes import fixed_shapes
from dmltune.core.losses._pairs import PairLoss


class Triplet(PairLoss):
    """Mean over the triplets with (d_ap − d_an + m)₊ > 0 (eq. 2.1.2); 0 if there is none."""

    def __init__(self, margin: Annotated[float, Ge(0)] = 0.0961) -> None:
        super().__init__()
        self.margin = margin

    def of_pairs(self, dist_BR: Tensor, positive_BR: Tensor, negative_BR: Tensor) -> Tensor:
        value: Tensor = _MeanOfTriplets.apply(dist_BR, positive_BR, negative_BR, self.margin)
        return value


class _MeanOfTriplets(torch.autograd.Function):
    """With A the active triplets, d_an < d_ap + m, the loss is linear wherever A does not change.

    ∂L/∂d_ap = #{n: (a,p,n) ∈ A} / |A|, ∂L/∂d_an = −#{p: (a,p,n) ∈ A} / |A| and L = m + Σ_ij ∂L/∂d_ij · d_ij.
    Both counts come from a search of every negative among its anchor's sorted positives: O(B·R·log P) time
    and O(B·R) memory for up to B·R² triplets.
    """

    @staticmethod
    def forward(ctx: Any, dist_BR: Tensor, positive_BR: Tensor, negative_BR: Tensor, margin: float) -> Tensor:
        slope_BR, active = _slopes(dist_BR, positive_BR, negative_BR, margin)
        slope_BR /= active.clamp(min=1)
        ctx.save_for_backward(slope_BR)
        # a row's slopes add up to 0, so any number may be taken from its distances: fewer digits cancel
        centred_BR = dist_BR - dist_BR.mean(1, keepdim=True)
        value = margin + torch.dot(slope_BR.flatten(), centred_BR.flatten())
        return torch.where(active > 0, value.clamp(min=0), 0)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        (slope_BR,) = ctx.saved_tensors
        return grad * slope_BR, None, None, None


def _slopes(
    dist_BR: Tensor, positive_BR: Tensor, negative_BR: Tensor, margin: float
) -> tuple[Tensor, Tensor]:
    """Return (pulls less pushes of each distance, number of active triplets)."""
    most = dist_BR.shape[1] if len(dist_BR) else 0  # columns that are not needed hold −∞
    if most and not fixed_shapes(dist_BR):
        most = int(positive_BR.sum(1).max())
    if most == 0:
        return torch.zeros_like(dist_BR), torch.zeros((), dtype=torch.long, device=dist_BR.device)
    # ascending; rows with fewer than P positives have −∞ in front, which no negative violates
    bound_BP, place_BP = torch.where(positive_BR, dist_BR + margin, -torch.inf).topk(most, dim=1)
    bound_BP, place_BP = bound_BP.flip(1), place_BP.flip(1)
    near_BR = torch.where(negative_BR, dist_BR, torch.inf)
    # how many positives a negative does not violate
    satisfied_BR = torch.searchsorted(bound_BP, near_BR, right=True)
    counts_BQ = satisfied_BR.new_zeros(len(dist_BR), most + 1)
    counts_BQ.scatter_add_(1, satisfied_BR, torch.ones_like(satisfied_BR))
    pulls_BP = counts_BQ.cumsum(1)[:, :-1]
    slope_BR = (satisfied_BR - most).to(dist_BR.dtype)
    slope_BR.scatter_add_(1, place_BP, pulls_BP.to(dist_BR.dtype))
    return slope_BR, pulls_BP.sum()
