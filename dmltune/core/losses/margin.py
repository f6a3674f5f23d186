"""The margin loss with a learned boundary."""

from __future__ import annotations

from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor, nn

from dmltune.core.losses._pairs import PairLoss


class Margin(PairLoss):
    """Mean over the non-zero (α + y·(d − β))₊ of all pairs (eq. 2.1.3), y = 1 if positive, else −1.

    Positive and negative terms have one common count, as in Wu et al. (2017); all pairs stand in for their
    sampled ones, and β is one number for all classes. ∂L/∂β is the share of violating negative pairs less
    that of the positive ones.
    """

    def __init__(
        self,
        alpha: Annotated[float, Ge(0)] = 0.2,
        beta: Annotated[float, Ge(0)] = 1.2,
        learn_beta: bool = True,
    ) -> None:
        super().__init__()
        self.alpha = alpha
        start = torch.tensor(beta, dtype=torch.float64)  # exact for float64 points too, lowers none
        self.beta = nn.Parameter(start) if learn_beta else nn.Buffer(start)

    def of_pairs(self, dist_BR: Tensor, positive_BR: Tensor, negative_BR: Tensor) -> Tensor:
        beyond_BR = dist_BR - self.beta
        too_far_BR = torch.where(positive_BR, self.alpha + beyond_BR, 0)
        violation_BR = torch.where(negative_BR, self.alpha - beyond_BR, too_far_BR).relu()
        return violation_BR.sum() / torch.count_nonzero(violation_BR).clamp(min=1)
