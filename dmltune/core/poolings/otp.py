"""Aggregation by optimal transport: the features moved to each prototype, side by side.

B images, D channels of a part, N positions, K clusters (prototypes), P points.
"""

from __future__ import annotations

import math
from typing import Annotated

import torch
from annotated_types import Ge, Gt
from torch import Tensor, nn

from dmltune.core.geometry import greedy_k_center, l2_normalise
from dmltune.core.poolings import Pooling, channels_each, local_features

_POINTS_EACH = 32  # points to start from for every prototype


class Otp(Pooling):
    """√K · [Σ_n π_n1 f_n, …, Σ_n π_nK f_n] (Mialon et al. 2021), π the entropic transport.

    π moves the features (1/N each) to the prototypes (1/K each), π_nk ∝ exp(⟨f_n, w_k⟩ / ε) with both at unit
    length. As in the paper π is the result of a fixed number of Sinkhorn iterations; the last sets the masses
    of the prototypes, so every part is an average. The kernel embedding of the paper is the linear one here:
    the 1×1 convolution before the pooling learns it.
    """

    def __init__(
        self,
        *,
        channels: int,
        clusters: Annotated[int, Ge(1)] = 8,
        epsilon: Annotated[float, Gt(0)] = 0.5,
        iterations: Annotated[int, Ge(1)] = 10,
    ) -> None:
        super().__init__()
        self.in_channels = channels_each(channels, clusters)
        self.start_points = _POINTS_EACH * clusters
        self.epsilon, self.iterations = epsilon, iterations
        self.prototypes = nn.Parameter(l2_normalise(torch.randn(clusters, self.in_channels)))

    def forward(self, features_BDHW: Tensor) -> Tensor:
        local_BND = local_features(features_BDHW)
        score_BNK = l2_normalise(local_BND) @ l2_normalise(self.prototypes).mT / self.epsilon
        plan_BNK = _transport(score_BNK, self.iterations)
        return math.sqrt(len(self.prototypes)) * (plan_BNK.mT @ local_BND).flatten(1)

    @torch.no_grad()
    def start(self, points_ND: Tensor) -> None:
        """Prototypes ← greedy k-center of the points at unit length; with too few points some stay random."""
        points_PD = l2_normalise(points_ND)
        picks = greedy_k_center(points_PD, None, min(len(self.prototypes), len(points_PD)))
        self.prototypes[: len(picks)] = points_PD[picks].to(self.prototypes)


def _transport(score_BNK: Tensor, iterations: int) -> Tensor:
    """Sinkhorn's scalings of exp(score) to row sums 1/N and, exactly, column sums 1/K, as logarithms."""
    count, clusters = score_BNK.shape[1:]
    column_B1K = score_BNK.new_zeros(())
    for _ in range(iterations):
        row_BN1 = -(score_BNK + column_B1K).logsumexp(2, keepdim=True) - math.log(count)
        column_B1K = -(score_BNK + row_BN1).logsumexp(1, keepdim=True) - math.log(clusters)
    return (score_BNK + row_BN1 + column_B1K).exp()
