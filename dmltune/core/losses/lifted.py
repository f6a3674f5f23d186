"""The lifted structured loss."""

from __future__ import annotations

from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor

from dmltune.core.fixed_shapes import fixed_shapes
from dmltune.core.losses._pairs import PairLoss, only

_LARGEST = 1e15  # a violation saturates here, with gradient 0: the sum of the squares stays within float32


class Lifted(PairLoss):
    """1/(2|P|) Σ_(i,j)∈P (J_ij)₊² with P the positive pairs (Song et al. 2016, the thesis' [32]) and

    J_ij = d_ij + log( Σ_k exp(m − d_ik) + Σ_l exp(m − d_lj) ), k the negatives of i and l those of j.

    This is the original form, a term for every positive pair, and not the per-anchor form of Hermans et al.
    With references the negatives of a reference j are the samples l of other classes. A pair without any
    negative is a term of 0.
    """

    def __init__(self, margin: Annotated[float, Ge(0)] = 1.0) -> None:
        super().__init__()
        self.margin = margin

    def of_pairs(self, dist_BR: Tensor, positive_BR: Tensor, negative_BR: Tensor) -> Tensor:
        near_BR = only(self.margin - dist_BR, negative_BR)
        near_B1, near_R = near_BR.logsumexp(1, keepdim=True), near_BR.logsumexp(0)
        if fixed_shapes(dist_BR):
            violation_BR = dist_BR + torch.logaddexp(near_B1, near_R)
            terms_BR = torch.where(positive_BR, violation_BR, 0).clamp(0, _LARGEST)
            return terms_BR.square().sum() / (2 * positive_BR.sum()).clamp(min=1)
        i, j = positive_BR.nonzero(as_tuple=True)
        violation_P = dist_BR[i, j] + torch.logaddexp(near_B1.squeeze(1)[i], near_R[j])
        return violation_P.clamp(0, _LARGEST).square().sum() / max(1, 2 * len(i))
