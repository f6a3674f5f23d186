"""Generalized sum pooling (chapter 5): the share μ of the features nearest to learned prototypes.

B images, D channels, H × W = N positions, M prototypes.
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

import torch
from annotated_types import Ge, Gt, Interval
from torch import Tensor, nn

from dmltune.core.geometry import greedy_k_center, lip, pairwise_distance
from dmltune.core.host_numbers import HostNumbers
from dmltune.core.poolings import Pooling
from dmltune.core.poolings._transport import Transport, partial_transport, transport

__all__ = ["Gsp", "Pooled", "Transport", "generalized_sum_pool", "transport"]

_JITTER = 1e-2  # length of the noise that separates prototypes with the same start


class Pooled(NamedTuple):
    """Pooled features (B, D), pseudo-attributes z (B, M) and weights p (B, N); rows of z and p sum to 1."""

    pooled_BD: Tensor
    attributes_BM: Tensor
    weights_BN: Tensor


def generalized_sum_pool(
    features_BND: Tensor, prototypes_MD: Tensor, mu: float, epsilon: float, iterations: int | None = None
) -> Pooled:
    """Σ_j p_j f_j with p_j = (1/N − ρ_j)/μ (eq. 5.2.1) and z_i = Σ_j π_ij/μ (eq. 5.2.3).

    π, ρ are the transport with the cost c_ij = ‖lip(ω_i) − lip(f_j)‖; the features are averaged as they
    are. μ = 1 is average pooling (claim 5.2.1). `iterations` as in `transport`.
    """
    features_BND = features_BND.to(torch.promote_types(features_BND.dtype, torch.float32))
    distance_LM = pairwise_distance(lip(features_BND).flatten(0, 1), lip(prototypes_MD))
    cost_BMN = distance_LM.view(*features_BND.shape[:2], -1).mT
    plan_BMN, _, taken_BN = partial_transport(cost_BMN, mu, epsilon, iterations)
    weights_BN = taken_BN / mu
    pooled_BD = features_BND.mean(1) if mu == 1 else (weights_BN.unsqueeze(1) @ features_BND).squeeze(1)
    return Pooled(pooled_BD, plan_BMN.sum(-1) / mu, weights_BN)


class Gsp(HostNumbers, Pooling):
    """Generalized sum pooling of the local features of a map, with learned prototypes ω.

    Before `start` it pools as at μ = 1. `under` says what becomes of the map and its weights:

    sum      Σ_j p_j f_j; average pooling at μ = 1.
    max      the largest N·p_j·f_j of each channel; max pooling at μ = 1.
    sum+max  the sum and the largest f_j of each channel added, GSP + GMP as in the conventional evaluation of
             the thesis; `gap_gmp` at μ = 1. The authors' code takes this maximum before the 1×1 convolution,
             here it follows it, as in `gap_gmp`.
    """

    host_numbers = ("started",)

    def __init__(
        self,
        *,
        channels: int,
        prototypes: Annotated[int, Ge(1)] = 64,
        mu: Annotated[float, Interval(gt=0, le=1)] = 0.3,
        epsilon: Annotated[float, Gt(0)] = 5.0,
        iterations: Annotated[int | None, Ge(1)] = None,
        under: Literal["sum", "max", "sum+max"] = "sum",
    ) -> None:
        super().__init__()
        self.attributes, self.start_points = prototypes, 4 * prototypes
        self.mu, self.epsilon, self.iterations, self.under = mu, epsilon, iterations, under
        start_MD = torch.randn(prototypes, channels, dtype=torch.float32) * (0.1 / channels**0.5)
        self.prototypes = nn.Parameter(start_MD)
        self.started = False

    def forward(self, features_BDHW: Tensor) -> Tensor:
        return self.with_attributes(features_BDHW)[0]

    def with_attributes(self, features_BDHW: Tensor) -> tuple[Tensor, Tensor]:
        local_BND = features_BDHW.flatten(2).mT
        pooled_BD, attributes_BM, weights_BN = self._pool(local_BND)
        if self.under == "max":
            pooled_BD = (weights_BN.unsqueeze(-1) * local_BND.shape[1] * local_BND).amax(1)
        elif self.under == "sum+max":
            pooled_BD = pooled_BD + local_BND.amax(1)
        # adds 0: DistributedDataParallel needs the prototypes in the graph of an average pooling too
        return pooled_BD + 0 * self.prototypes.sum(), attributes_BM

    def idle(self, attributes: bool) -> dict[str, str]:
        if self.mu < 1 or attributes:
            return {}
        return dict.fromkeys(("prototypes", "epsilon", "iterations"), "pooling.mu 1 is average pooling")

    def weights(self, features_BDHW: Tensor) -> Tensor:
        """Return the pooling weights as maps, (B, H, W); each sums to 1."""
        weights_BN = self._pool(features_BDHW.flatten(2).mT).weights_BN
        return weights_BN.view(-1, *features_BDHW.shape[2:])

    @torch.no_grad()
    def start(self, points_ND: Tensor) -> None:
        """Prototypes ← greedy k-center of the points after lip, where the cost compares them.

        With fewer points than prototypes the picks repeat, with noise: equal prototypes would stay equal.
        """
        if not len(points_ND):
            raise ValueError("Gsp.start needs at least one point; got none")
        points_ND, total = lip(points_ND), len(self.prototypes)
        picks = greedy_k_center(points_ND, None, min(total, len(points_ND)))
        repeated = picks[torch.arange(total, device=picks.device) % len(picks)]
        chosen_MD = points_ND[repeated].to(self.prototypes)
        generator = torch.Generator().manual_seed(0)
        noise_MD = torch.randn(chosen_MD.shape, generator=generator, dtype=torch.float32)
        noise_MD[: len(picks)] = 0
        self.prototypes.copy_(chosen_MD + noise_MD.to(chosen_MD) * (_JITTER / chosen_MD.shape[1] ** 0.5))
        self.started = True

    def _pool(self, local_BND: Tensor) -> Pooled:
        mu = self.mu if self.started else 1.0
        return generalized_sum_pool(local_BND, self.prototypes, mu, self.epsilon, self.iterations)
