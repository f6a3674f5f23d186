"""Global average pooling."""

from __future__ import annotations

from torch import Tensor

from dmltune.core.poolings import Pooling


class Gap(Pooling):
    """The mean over the positions of the map."""

    def forward(self, features_BDHW: Tensor) -> Tensor:
        return features_BDHW.mean(dim=(2, 3))
