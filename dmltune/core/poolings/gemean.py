"""Generalised mean pooling with a learned power.

B images, D channels, N positions.
"""

from __future__ import annotations

import math
from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor, nn

from dmltune.core.poolings import Pooling, local_features

FLOOR = 1e-6  # lower bound of features: powers of negative numbers are undefined (the authors' value)
LEAST_POWER = 0.1  # not in the paper: the learned power stays above 0, where the mean divides by it


def generalised_mean(local_BND: Tensor, power: Tensor) -> Tensor:
    """(mean_n max(f_n, FLOOR)^p)^(1/p), (B, D), in the log domain: no power overflows or vanishes."""
    power = power.clamp(min=LEAST_POWER)
    log_sum_BD = (power * local_BND.clamp(min=FLOOR).log()).logsumexp(1)
    return ((log_sum_BD - math.log(local_BND.shape[1])) / power).exp()


class Gemean(Pooling):
    """(mean_n f_n^p)^(1/p) with one learned p for all channels (Radenović et al. 2018, eq. 3).

    p starts at `power`. 1 is average pooling, ∞ max pooling, both of the features' positive part.
    """

    def __init__(self, *, power: Annotated[float, Ge(1)] = 3.0) -> None:
        super().__init__()
        self.power = nn.Parameter(torch.tensor(power, dtype=torch.float32))

    def forward(self, features_BDHW: Tensor) -> Tensor:
        return generalised_mean(local_features(features_BDHW), self.power)
