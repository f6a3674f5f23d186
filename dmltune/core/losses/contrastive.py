"""C2: the contrastive loss on distances with two margins."""

from __future__ import annotations

from typing import Annotated

import torch
from annotated_types import Ge, Gt
from torch import Tensor

from dmltune.core.losses._pairs import PairLoss


class Contrastive(PairLoss):
    """Means over the non-zero (d − m⁺)₊ of positive and (m⁻ − d)₊ of negative pairs, added.

    In the thesis' form (lemma 3.2.1) m⁺ = β − α and m⁻ = β + α. Without a non-zero term a part is 0.
    """

    def __init__(
        self, pos_margin: Annotated[float, Ge(0)] = 0.0, neg_margin: Annotated[float, Gt(0)] = 0.3841
    ) -> None:
        super().__init__()
        self.pos_margin, self.neg_margin = pos_margin, neg_margin

    def of_pairs(self, dist_BR: Tensor, positive_BR: Tensor, negative_BR: Tensor) -> Tensor:
        far_BR, near_BR = positive_BR & (dist_BR > self.pos_margin), negative_BR & (dist_BR < self.neg_margin)
        far, near = (torch.count_nonzero(chosen_BR).to(dist_BR.dtype) for chosen_BR in (far_BR, near_BR))
        # both means as one weighted sum of distances, weights and gradient in one: few passes over B × R
        weight_BR = torch.where(far_BR, far.reciprocal(), torch.where(near_BR, -near.reciprocal(), 0))
        margins = self.neg_margin * near.clamp(max=1) - self.pos_margin * far.clamp(max=1)
        return margins + torch.dot(weight_BR.flatten(), dist_BR.flatten())
