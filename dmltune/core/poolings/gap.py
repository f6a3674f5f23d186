"""Global average pooling."""

from __future__ import annotations

from torch import Tensor, nn


class Gap(nn.Module):
    """The mean over the positions of the map."""

    def forward(self, features_BDHW: Tensor) -> Tensor:
        return features_BDHW.mean(dim=(2, 3))
