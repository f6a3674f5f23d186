"""C2: the contrastive loss on distances with two margins."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from dmltune.core.components import Range
from dmltune.core.losses._pairs import PairLoss, mean_of_non_zero


class Contrastive(PairLoss):
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

    def of_pairs(self, dist_BR: Tensor, positive_BR: Tensor, negative_BR: Tensor) -> Tensor:
        too_far_BR = torch.where(positive_BR, dist_BR - self.pos_margin, 0).relu()
        too_near_BR = torch.where(negative_BR, self.neg_margin - dist_BR, 0).relu()
        return mean_of_non_zero(too_far_BR) + mean_of_non_zero(too_near_BR)
