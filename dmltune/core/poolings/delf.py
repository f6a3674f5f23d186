"""DeLF: the average weighted by the attention of a small network.

B images, D channels, N positions, L hidden channels.
"""

from __future__ import annotations

import math
from typing import Annotated

from annotated_types import Ge
from torch import Tensor, nn
from torch.nn import functional as F

from dmltune.core.poolings import Pooling, local_features, weighted_sum


class Delf(Pooling):
    """mean_n φ(f_n) f_n with φ(f) = softplus(w · relu(W f + b) + c) (Noh et al. 2017, eq. 1).

    The paper sums over positions; the mean has the same direction. w starts at 0 and c so that φ = 1: average
    pooling.
    """

    def __init__(self, *, channels: int, hidden: Annotated[int, Ge(1)] = 512) -> None:
        super().__init__()
        self.hidden = nn.Linear(channels, hidden)
        self.score = nn.Linear(hidden, 1)
        nn.init.zeros_(self.score.weight)
        nn.init.constant_(self.score.bias, math.log(math.expm1(1)))

    def forward(self, features_BDHW: Tensor) -> Tensor:
        local_BND = local_features(features_BDHW)
        score_BN = self.score(self.hidden(local_BND).relu()).squeeze(-1)
        # torch is linear above its threshold; 20, its default, is too low for float64
        attention_BN = F.softplus(score_BN, threshold=40)
        return weighted_sum(attention_BN, local_BND) / attention_BN.shape[1]
