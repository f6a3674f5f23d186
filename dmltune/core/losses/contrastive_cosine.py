"""C1: the contrastive loss on inner products, in the form of the cross-batch memory."""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from annotated_types import Interval
from torch import Tensor

from dmltune.core.losses._pairs import SimilarityLoss

_SAME = 1e-5  # a positive pair that is closer than this adds nothing


class ContrastiveCosine(SimilarityLoss):
    """(Σ_pos (1 − s)[s < 1 − 1e-5] + Σ_neg s[s > margin]) / number of anchors, s the inner product."""

    mean_over_samples: ClassVar[bool] = True

    def __init__(self, margin: Annotated[float, Interval(ge=-1, le=1)] = 0.5) -> None:
        super().__init__()
        self.margin = margin

    def of_pairs(self, similarity_BR: Tensor, positive_BR: Tensor, negative_BR: Tensor) -> Tensor:
        pull_BR = torch.where(positive_BR & (similarity_BR < 1 - _SAME), 1 - similarity_BR, 0)
        push_BR = torch.where(negative_BR & (similarity_BR > self.margin), similarity_BR, 0)
        return (pull_BR + push_BR).sum() / max(1, len(similarity_BR))
