"""FastAP: average precision on soft histograms of distances (seed 004).

B queries, R points of the database, D dimensions, L bins between the L+1 centres c_l = lΔ, l = 0 … L, on [0,
4]. z = d² and p = z/Δ. ĥ and Ĥ are the soft counts of a query at a centre and up to it; with + of its
positives alone.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import torch
from annotated_types import Ge
from torch import Tensor, nn

from dmltune.core.geometry import another, at_least_float32, pair_masks

_FARTHEST = 4.0  # the largest squared distance of two points on the unit sphere


class Fastap(nn.Module):
    """1 − mean FastAP_i over the queries with a positive and a negative; 0 when there is none (eq. 21).

    FastAP_i = 1/N_i⁺ Σ_l Ĥ⁺_il ĥ⁺_il / Ĥ_il with N_i⁺ the number of positives (eq. 21 prints N_i).
    """

    skips_negative_labels: ClassVar[bool] = True

    def __init__(self, bins: Annotated[int, Ge(1)] = 10) -> None:
        super().__init__()
        self.bins = bins

    def forward(
        self,
        emb_BD: Tensor,
        labels_B: Tensor,
        refs_RD: Tensor | None = None,
        ref_labels_R: Tensor | None = None,
    ) -> Tensor:
        emb_BD = at_least_float32(emb_BD)
        refs_RD = emb_BD if refs_RD is None else refs_RD.to(emb_BD.dtype)
        loss: Tensor = _FastAp.apply(
            emb_BD, another(refs_RD, emb_BD), *pair_masks(labels_B, ref_labels_R), self.bins
        )
        return loss


class _FastAp(torch.autograd.Function):
    """Time O(L·B·R) forward and O(B·R + L·B) backward besides the products with D; memory O(B·R + L·B)."""

    @staticmethod
    def forward(
        ctx: Any, x_BD: Tensor, y_RD: Tensor, positive_BR: Tensor, negative_BR: Tensor, bins: int
    ) -> Tensor:
        # eq. 2 for points inside the sphere (lip) as well, where it is not ‖x − y‖²; clamped for longer ones
        squared_BR = 2 - 2 * _inner_product(x_BD, y_RD)
        inside_BR = (squared_BR >= 0) & (squared_BR <= _FARTHEST)
        position_BR = squared_BR.clamp_(0, _FARTHEST).mul_(bins / _FARTHEST)
        positive_B, negative_B = positive_BR.sum(1), negative_BR.sum(1)
        used_B = (positive_B > 0) & (negative_B > 0)  # without either FastAP is 1 or 0 whatever the distances
        weight_B = used_B.to(x_BD.dtype) / (positive_B * used_B.sum()).clamp(min=1)  # 1 / (N_i⁺ · queries)
        all_BL, relevant_BL = _cumulative(position_BR, positive_BR, positive_BR | negative_BR, bins)
        precision_BL = _ratio(relevant_BL, all_BL)
        steps_BL = relevant_BL.diff(dim=1, prepend=relevant_BL.new_zeros(len(relevant_BL), 1))
        ctx.save_for_backward(
            *(x_BD, y_RD, position_BR, positive_BR, (positive_BR | negative_BR) & inside_BR),
            *(precision_BL, _ratio(steps_BL, all_BL), weight_B),
        )
        fast_ap = ((precision_BL * steps_BL).sum(1) * weight_B).sum()
        return torch.where(used_B.any(), 1 - fast_ap, 0 * fast_ap)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, None, None]:
        """Eq. 17 with eq. 30 (and B_i⁻ for the B_l⁻ of eq. 15), without a B×R pass for every bin.

        With q = Ĥ⁺/Ĥ and r = ĥ⁺/Ĥ eq. 26 is f̂⁺ = r(1−q), eq. 27 is ĝ⁺ = q + f̂⁺, and for negatives f̂⁻ = ĝ⁻
        = −qr. A pair between the centres l and l+1 moves ĥ_l by −1/Δ and ĥ_l+1 by 1/Δ: of F only the
        difference F_l+1 − F_l acts on it, in which the sums U f̂ of eq. 29 cancel but for one term: q_l+1 −
        q_l − f̂⁺_l for a positive, q_l r_l for a negative. On a centre, where δ has a kink, the derivative is
        the one to the right; a clamped distance has none. (The authors' released backward is scaled wrongly.)
        """
        x_BD, y_RD, position_BR, positive_BR, acts_BR, q_BL, r_BL, weight_B = ctx.saved_tensors
        bins = q_BL.shape[1] - 1
        bin_BR = position_BR.long().clamp_(0, bins - 1)
        positive_slope_BL = q_BL.diff(dim=1) - r_BL[:, :-1] * (1 - q_BL[:, :-1])
        negative_slope_BL = q_BL[:, :-1] * r_BL[:, :-1]
        slope_BR = torch.where(
            positive_BR, positive_slope_BL.gather(1, bin_BR), negative_slope_BL.gather(1, bin_BR)
        )
        # ∂loss/∂s: ∂z/∂s = −2 (eq. 3) and the minus of 1 − FastAP
        pull_BR = torch.where(acts_BR, slope_BR * (weight_B * (2 * bins / _FARTHEST)).unsqueeze(1), 0) * grad
        grad_x_BD = pull_BR @ y_RD if ctx.needs_input_grad[0] else None
        grad_y_RD = pull_BR.mT @ x_BD if ctx.needs_input_grad[1] else None
        return grad_x_BD, grad_y_RD, None, None, None


def _inner_product(x_BD: Tensor, y_RD: Tensor) -> Tensor:
    """Return ⟨x, y⟩, which is ±∞ for huge points where it must be, and never ∞ − ∞."""
    size_B1 = x_BD.abs().amax(1, keepdim=True).clamp(min=1)
    size_R1 = y_RD.abs().amax(1, keepdim=True).clamp(min=1)
    return ((x_BD / size_B1) @ (y_RD / size_R1).mT).mul_(size_B1).mul_(size_R1.mT)


def _cumulative(
    position_BR: Tensor, positive_BR: Tensor, database_BR: Tensor, bins: int
) -> tuple[Tensor, Tensor]:
    """Ĥ and Ĥ⁺ for the centres 0 … L: δ of eq. 7 summed up to centre l is clamp(l + 1 − p, 0, 1)."""
    position_BR = torch.where(database_BR, position_BR, torch.inf)
    weight_BR = positive_BR.to(position_BR.dtype)
    counts, relevant = [], []
    for centre in range(bins):
        counted_BR = (centre + 1 - position_BR).clamp_(0, 1)
        counts.append(counted_BR.sum(1))
        relevant.append(torch.linalg.vecdot(counted_BR, weight_BR))
    counts.append(database_BR.sum(1).to(position_BR.dtype))
    relevant.append(weight_BR.sum(1))
    return torch.stack(counts, 1), torch.stack(relevant, 1)


def _ratio(part_BL: Tensor, whole_BL: Tensor) -> Tensor:
    return torch.where(whole_BL > 0, part_BL / whole_BL.where(whole_BL > 0, 1), 0)
