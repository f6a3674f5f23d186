"""C1: the contrastive loss on inner products, in the form of the cross-batch memory."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn

from dmltune.core.components import Range
from dmltune.core.geometry import pair_masks

_SAME = 1e-5
"""A positive pair that is closer than this adds nothing."""


class ContrastiveCosine(nn.Module):
    """(Σ_pos (1 − s)[s < 1 − 1e-5] + Σ_neg s[s > margin]) / number of anchors, s the inner product."""

    def __init__(self, margin: Annotated[float, Range(-1, 1)] = 0.5) -> None:
        super().__init__()
        self.margin = margin

    def forward(
        self,
        emb_BD: Tensor,
        labels_B: Tensor,
        refs_RD: Tensor | None = None,
        ref_labels_R: Tensor | None = None,
    ) -> Tensor:
        emb_BD = emb_BD.float() if emb_BD.dtype in (torch.float16, torch.bfloat16) else emb_BD
        refs_RD = emb_BD if refs_RD is None else refs_RD.to(emb_BD.dtype)
        similarity_BR = emb_BD @ refs_RD.mT
        positive_BR, negative_BR = pair_masks(labels_B, ref_labels_R)
        pull_BR = torch.where(positive_BR & (similarity_BR < 1 - _SAME), 1 - similarity_BR, 0)
        push_BR = torch.where(negative_BR & (similarity_BR > self.margin), similarity_BR, 0)
        return (pull_BR + push_BR).sum() / max(1, len(labels_B))
