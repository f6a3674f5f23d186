"""Average plus max pooling."""

from __future__ import annotations

from torch import Tensor

from dmltune.core.poolings import Pooling


class GapGmp(Pooling):
    """mean + max of every channel: the sum, as in Kim et al. 2020 ([37] of the thesis)."""

    def forward(self, features_BDHW: Tensor) -> Tensor:
        return features_BDHW.mean(dim=(2, 3)) + features_BDHW.amax(dim=(2, 3))
