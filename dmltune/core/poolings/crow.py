"""CroW: positions weighted by the strength of their response, channels by their rarity.

B images, D channels, N positions.
"""

from __future__ import annotations

from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor

from dmltune.core.poolings import Pooling, local_features, weighted_sum


class Crow(Pooling):
    """pooled_d = I_d · mean_n S_n f_nd (Kalantidis et al. 2016).

    With X = relu(f), X_n = Σ_d X_nd: S_n = (X_n / (Σ_m X_m^a)^(1/a))^(1/b), I_d = log(Σ_h Q_h / Q_d), Q_d the
    share of positions with X_nd > 0. The paper's features are ≥ 0. Here they follow a linear layer: both
    weights are those of relu(f), applied to f itself. The paper sums over positions; the mean has the same
    direction.
    """

    def __init__(self, *, norm: Annotated[float, Ge(1)] = 2.0, root: Annotated[float, Ge(1)] = 2.0) -> None:
        super().__init__()
        self.norm, self.root = norm, root

    def forward(self, features_BDHW: Tensor) -> Tensor:
        local_BND = local_features(features_BDHW)
        # not in the paper, whose ε lets a silent channel weigh log(1/ε) times 0: values of a silent channel
        # may be negative here, so it weighs as one that responds once; no ε is needed then
        counts_BD = (local_BND > 0).sum(1).clamp(min=1).to(local_BND)
        rarity_BD = (counts_BD.sum(1, keepdim=True) / counts_BD).log()
        spatial_BN = self._spatial(local_BND.relu().sum(-1))
        return rarity_BD * weighted_sum(spatial_BN, local_BND) / spatial_BN.shape[1]

    def _spatial(self, response_BN: Tensor) -> Tensor:
        """Return S; equal weights if no position responds, and no (infinite) gradient at responses of 0."""
        largest_B1 = response_BN.detach().amax(1, keepdim=True)
        silent_B1 = largest_B1 == 0
        share_BN = torch.where(silent_B1, 1, response_BN / torch.where(silent_B1, 1, largest_B1))
        share_BN = share_BN / share_BN.pow(self.norm).sum(1, keepdim=True).pow(1 / self.norm)
        zero_BN = share_BN == 0
        return torch.where(zero_BN, 0, torch.where(zero_BN, 1, share_BN).pow(1 / self.root))
