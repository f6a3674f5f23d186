"""WELDON: the strongest and the weakest responses of every channel.

B images, D channels, N positions.
"""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Gt
from torch import Tensor

from dmltune.core.geometry import at_least_float32
from dmltune.core.poolings import Pooling
from dmltune.errors import UserError


class Weldon(Pooling):
    """Mean of the k_max largest + mean of the k_min smallest values of every channel (Durand et al. 2016).

    Below 1 a k is the share of the positions (at least one of them), from 1 on their number (at most all);
    k_min = 0 leaves the second mean out. Defaults: the thesis' code.
    """

    def __init__(self, *, k_max: Annotated[float, Gt(0)] = 3.0, k_min: Annotated[float, Ge(0)] = 3.0) -> None:
        super().__init__()
        for name, k in (("k_max", k_max), ("k_min", k_min)):
            if k > 1 and k != int(k):
                raise UserError(
                    f"{name} must be a share below 1 or a whole number of positions; got {k:g}. "
                    f"Use {int(k)} or {int(k) + 1}."
                )
        self.k_max, self.k_min = k_max, k_min

    def forward(self, features_BDHW: Tensor) -> Tensor:
        values_BDN = at_least_float32(features_BDHW).flatten(2)
        count = values_BDN.shape[2]
        pooled_BD = values_BDN.topk(_positions(self.k_max, count), sorted=False).values.mean(2)
        if self.k_min > 0:
            lowest_BDk = values_BDN.topk(_positions(self.k_min, count), largest=False, sorted=False).values
            pooled_BD = pooled_BD + lowest_BDk.mean(2)
        return pooled_BD


def _positions(k: float, count: int) -> int:
    return max(1, round(k * count)) if k < 1 else min(int(k), count)
