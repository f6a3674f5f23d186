"""The ranked list loss."""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Gt
from torch import Tensor

from dmltune.core.losses._pairs import PairLoss, only


class RankedList(PairLoss):
    """Mean over all anchors of L_P + L_N (Wang et al. 2019, arXiv 1903.03238, with their λ = 1), where

    L_P is the mean of d − (α − m) over the positives with d > α − m,
    L_N = Σ_n w_n (α − d_n) / Σ_n w_n, w_n = exp(T(α − d_n)), over the negatives with d < α,

    α = boundary, m = margin, T = temperature. A part without such pairs is 0. The gradient is that
    of the value: the weights w are not held fixed.
    """

    mean_over_samples: ClassVar[bool] = True

    def __init__(
        self,
        margin: Annotated[float, Ge(0)] = 0.4,
        boundary: Annotated[float, Gt(0)] = 1.2,
        temperature: Annotated[float, Ge(0)] = 10.0,
    ) -> None:
        super().__init__()
        self.margin, self.boundary, self.temperature = margin, boundary, temperature

    def of_pairs(self, dist_BR: Tensor, positive_BR: Tensor, negative_BR: Tensor) -> Tensor:
        too_far_BR = torch.where(positive_BR, dist_BR - (self.boundary - self.margin), 0).relu()
        pull_B = too_far_BR.sum(1) / torch.count_nonzero(too_far_BR, 1).clamp(min=1)
        too_near_BR = torch.where(negative_BR, self.boundary - dist_BR, 0).relu()
        weight_BR = only(self.temperature * too_near_BR, too_near_BR > 0).softmax(1)
        push_B = (weight_BR * too_near_BR).sum(1)
        return (pull_B + push_B).sum() / max(1, len(dist_BR))
