"""The multi-similarity loss."""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Gt, Interval
from torch import Tensor

from dmltune.core.losses._pairs import SimilarityLoss, log_one_plus_exp, only


class MultiSimilarity(SimilarityLoss):
    """Batch mean of log(1 + Σ_p exp(−α(s_p − λ)))/α + log(1 + Σ_n exp(β(s_n − λ)))/β, λ = base.

    Wang et al. 2019. With a mining margin ε only the positives with s_p − ε < max_n s_n and the negatives
    with s_n + ε > min_p s_p count; an anchor without positives or without negatives then has no pairs. An
    anchor without pairs counts as 0.
    """

    mean_over_samples: ClassVar[bool] = True

    def __init__(
        self,
        alpha: Annotated[float, Gt(0)] = 2.0,
        beta: Annotated[float, Gt(0)] = 40.0,
        base: Annotated[float, Interval(ge=-1, le=1)] = 0.5,
        mining_margin: Annotated[float | None, Ge(0)] = None,
    ) -> None:
        super().__init__()
        self.alpha, self.beta, self.base = alpha, beta, base
        self.mining_margin = mining_margin

    def of_pairs(self, similarity_BR: Tensor, positive_BR: Tensor, negative_BR: Tensor) -> Tensor:
        if self.mining_margin is not None:
            fixed_BR, margin = similarity_BR.detach(), self.mining_margin
            nearest_negative_B1 = torch.where(negative_BR, fixed_BR, -torch.inf).amax(1, keepdim=True)
            farthest_positive_B1 = torch.where(positive_BR, fixed_BR, torch.inf).amin(1, keepdim=True)
            positive_BR = positive_BR & (fixed_BR - margin < nearest_negative_B1)
            negative_BR = negative_BR & (fixed_BR + margin > farthest_positive_B1)
        above_BR = similarity_BR - self.base
        pull_B = log_one_plus_exp(only(-self.alpha * above_BR, positive_BR).logsumexp(1)) / self.alpha
        push_B = log_one_plus_exp(only(self.beta * above_BR, negative_BR).logsumexp(1)) / self.beta
        return (pull_B + push_B).sum() / max(1, len(similarity_BR))
