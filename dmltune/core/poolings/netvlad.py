"""NetVLAD: residuals to learned centres under soft assignment, side by side.

B images, D channels of a part, N positions, K clusters (centres), P points.
"""

from __future__ import annotations

from typing import Annotated

import torch
from annotated_types import Ge, Gt
from torch import Tensor, nn

from dmltune.core.geometry import greedy_k_center, l2_normalise, pairwise_distance
from dmltune.core.poolings import Pooling, channels_each, local_features

_POINTS_EACH = 32  # points to start from for every centre
_ROUNDS = 50  # most rounds of k-means; it usually converges earlier


class Netvlad(Pooling):
    """[V_1, …, V_K], V_k = Σ_n a_nk (x_n − c_k) at unit length each, a = softmax_k(⟨w_k, x_n⟩ + b_k).

    Arandjelović et al. 2016, eq. 4; x are the features at unit length as in the authors' best form. w = 2αc
    and b = −α‖c‖² at first, which assigns by distance with sharpness α; then all three learn. The paper sets
    α by the distances of local features; `start` has averages only, so α is a parameter.
    """

    def __init__(
        self, *, channels: int, clusters: Annotated[int, Ge(1)] = 8, sharpness: Annotated[float, Gt(0)] = 10.0
    ) -> None:
        super().__init__()
        self.in_channels = channels_each(channels, clusters)
        self.start_points = _POINTS_EACH * clusters
        self.sharpness = sharpness
        self.prototypes = nn.Parameter(l2_normalise(torch.randn(clusters, self.in_channels)))
        self.assignment = nn.Linear(self.in_channels, clusters)
        self._assign_by_distance()

    def forward(self, features_BDHW: Tensor) -> Tensor:
        local_BND = l2_normalise(local_features(features_BDHW))
        share_BNK = self.assignment(local_BND).softmax(-1)
        taken_BK1 = share_BNK.sum(1).unsqueeze(-1)
        residual_BKD = share_BNK.mT @ local_BND - taken_BK1 * self.prototypes
        return l2_normalise(residual_BKD).flatten(1)

    @torch.no_grad()
    def start(self, points_ND: Tensor) -> None:
        """Centres ← k-means of the points at unit length; with too few points some stay random."""
        centres_KD = _k_means(l2_normalise(points_ND), len(self.prototypes))
        self.prototypes[: len(centres_KD)] = centres_KD.to(self.prototypes)
        self._assign_by_distance()

    @torch.no_grad()
    def _assign_by_distance(self) -> None:
        self.assignment.weight.copy_(2 * self.sharpness * self.prototypes)
        self.assignment.bias.copy_(-self.sharpness * self.prototypes.square().sum(-1))


def _k_means(points_PD: Tensor, clusters: int) -> Tensor:
    """Return centres (min(clusters, P), D) by Lloyd's rounds from greedy k-center; empty clusters stay."""
    centres_KD = points_PD[greedy_k_center(points_PD, None, min(clusters, len(points_PD)))]
    nearest_P = torch.full((len(points_PD),), -1, device=points_PD.device)
    for _ in range(_ROUNDS if len(points_PD) else 0):
        before_P, nearest_P = nearest_P, pairwise_distance(points_PD, centres_KD).argmin(1)
        if torch.equal(before_P, nearest_P):
            break
        cluster_K1 = torch.arange(len(centres_KD), device=nearest_P.device).unsqueeze(1)
        own_KP = (nearest_P == cluster_K1).to(points_PD)
        sizes_K1 = own_KP.sum(1, keepdim=True)
        centres_KD = torch.where(sizes_K1 > 0, own_KP @ points_PD / sizes_K1.clamp(min=1), centres_KD)
    return centres_KD
