"""C2: the contrastive loss on distances with two margins."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn

from dmltune.core.components import Range
from dmltune.core.geometry import pair_masks, pairwise_distance


class Contrastive(nn.Module):
    """Mean over the non-zero (d − m⁺)₊ of positive pairs + mean over the non-zero (m⁻ − d)₊ of negative
    pairs.

    In the thesis' form (lemma 3.2.1) m⁺ = β − α and m⁻ = β + α. Without a non-zero term a part is 0.
    """

    def __init__(
        self,
        pos_margin: Annotated[float, Range(0, None)] = 0.0,
        neg_margin: Annotated[float, Range(0, None, low_open=True)] = 0.3841,
    ) -> None:
        super().__init__()
        self.pos_margin, self.neg_margin = pos_margin, neg_margin

    def forward(
        self,
        emb_BD: Tensor,
        labels_B: Tensor,
        refs_RD: Tensor | None = None,
        ref_labels_R: Tensor | None = None,
    ) -> Tensor:
        dist_BR = pairwise_distance(emb_BD, emb_BD if refs_RD is None else refs_RD)
        positive_BR, negative_BR = pair_masks(labels_B, ref_labels_R)
        too_far_BR = torch.where(positive_BR, dist_BR - self.pos_margin, 0).relu()
        too_near_BR = torch.where(negative_BR, self.neg_margin - dist_BR, 0).relu()
        return _mean_of_non_zero(too_far_BR) + _mean_of_non_zero(too_near_BR)


def _mean_of_non_zero(values: Tensor) -> Tensor:
    return values.sum() / torch.count_nonzero(values).clamp(min=1)
