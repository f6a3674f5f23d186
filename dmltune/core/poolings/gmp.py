"""Global max pooling."""

from __future__ import annotations

from torch import Tensor

from dmltune.core.poolings import Pooling


class Gmp(Pooling):
    """The largest value of every channel; positions that tie share the gradient."""

    def forward(self, features_BDHW: Tensor) -> Tensor:
        return features_BDHW.amax(dim=(2, 3))
