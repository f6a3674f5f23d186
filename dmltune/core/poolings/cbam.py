"""CBAM: attention over channels, then over positions, then the average.

B images, D channels, H × W = N positions.
"""

from __future__ import annotations

from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor, nn

from dmltune.core.geometry import at_least_float32
from dmltune.core.poolings import Pooling, padding_of, weighted_sum


class Cbam(Pooling):
    """f′ = M_c ⊙ f, f″ = M_s ⊙ f′, pooled = mean of f″ (Woo et al. 2018).

    M_c = σ(W₁ relu(W₀ avg f) + W₁ relu(W₀ max f)) over positions and M_s = σ(conv_k [avg f′; max f′]), k = 7,
    over channels. W₁ and the convolution start at 0, so both masks at ½: average pooling up to scale. No
    batch norm after the convolution, unlike the authors' code: its statistics would tie images of a batch
    together.
    """

    def __init__(
        self, *, channels: int, reduction: Annotated[int, Ge(1)] = 16, kernel_size: Annotated[int, Ge(1)] = 7
    ) -> None:
        super().__init__()
        hidden = max(1, channels // reduction)
        self.squeeze = nn.Linear(channels, hidden, bias=False)
        self.excite = nn.Linear(hidden, channels, bias=False)
        self.spatial = nn.Conv2d(2, 1, kernel_size, padding=padding_of(kernel_size), bias=False)
        nn.init.zeros_(self.excite.weight)
        nn.init.zeros_(self.spatial.weight)

    def forward(self, features_BDHW: Tensor) -> Tensor:
        features_BDHW = at_least_float32(features_BDHW)
        summaries_2BD = torch.stack((features_BDHW.mean((2, 3)), features_BDHW.amax((2, 3))))
        # W₁ is linear: once for the sum of both paths
        channel_BD: Tensor = self.excite(self.squeeze(summaries_2BD).relu().sum(0)).sigmoid()
        features_BDHW = features_BDHW * channel_BD[:, :, None, None]
        summaries_B2HW = torch.stack((features_BDHW.mean(1), features_BDHW.amax(1)), 1)
        spatial_BN: Tensor = self.spatial(summaries_B2HW).sigmoid().flatten(1)
        return weighted_sum(spatial_BN, features_BDHW.flatten(2).mT) / spatial_BN.shape[1]
