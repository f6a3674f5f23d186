"""The multi-class N-pair loss."""

from __future__ import annotations

from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor

from dmltune.core.fixed_shapes import fixed_shapes
from dmltune.core.geometry import taking_part
from dmltune.core.losses._pairs import SimilarityLoss, log_one_plus_exp, only, saturated


class NPair(SimilarityLoss):
    """1/|P| Σ_(i,j)∈P log(1 + Σ_k exp(s_ik − s_ij)) + l2 · mean_i ‖x_i‖², P the positive pairs.

    k are the negatives of i. Sohn (2016) has one positive a class, which is then the negative of all other
    anchors: with the anchors as samples and those positives as references this is his loss; in a batch every
    sample is an anchor and meets all its positives and negatives. The norms are those of the samples.
    """

    def __init__(self, l2: Annotated[float, Ge(0)] = 0.0) -> None:
        super().__init__()
        self.l2 = l2

    def forward(
        self,
        emb_BD: Tensor,
        labels_B: Tensor,
        refs_RD: Tensor | None = None,
        ref_labels_R: Tensor | None = None,
    ) -> Tensor:
        value = super().forward(emb_BD, labels_B, refs_RD, ref_labels_R)
        if self.l2 > 0:
            norms_B = saturated(emb_BD).square().sum(1)
            value = value + self.l2 * torch.where(labels_B >= 0, norms_B, 0).sum() / taking_part(labels_B)
        return value

    def of_pairs(self, similarity_BR: Tensor, positive_BR: Tensor, negative_BR: Tensor) -> Tensor:
        rivals_B = only(similarity_BR, negative_BR).logsumexp(1)
        if fixed_shapes(similarity_BR):
            beyond_BR = torch.where(positive_BR, rivals_B.unsqueeze(1) - similarity_BR, 0)
            terms_BR = torch.where(positive_BR, log_one_plus_exp(beyond_BR), 0)
            return terms_BR.sum() / positive_BR.sum().clamp(min=1)
        i, j = positive_BR.nonzero(as_tuple=True)
        return log_one_plus_exp(rivals_B[i] - similarity_BR[i, j]).sum() / max(1, len(i))
