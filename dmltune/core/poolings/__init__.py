"""One file a pooling. `module(features_BDHW)` gives (B, channels), not normalised.

B images, D channels, H × W = N positions.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from dmltune.core import components
from dmltune.core.geometry import at_least_float32
from dmltune.errors import UserError


class Pooling(nn.Module):
    """Interface of poolings for `Embedder`, `Objective` and `fit`; the defaults are those of a plain one.

    in_channels   of the map it takes, if not the size of the point it gives (NetVLAD: 16 for 8 × 16)
    attributes    length of the pseudo-attribute vector z of eq. 5.2.3, 0 without one
    start_points  number of points that `start` needs, 0 for none
    """

    in_channels: int | None = None
    attributes: int = 0
    start_points: int = 0

    def __init__(self) -> None:  # its signature is the schema: nothing to set
        super().__init__()

    def forward(self, features_BDHW: Tensor) -> Tensor:
        raise NotImplementedError

    def with_attributes(self, features_BDHW: Tensor) -> tuple[Tensor, Tensor]:
        """Return (pooled_BD, attributes_BM) in one pass, for a pooling with attributes."""
        raise NotImplementedError

    def idle(self, attributes: bool) -> dict[str, str]:
        """Return parameter → why it has no effect. `attributes`: whether a loss of the attributes is used."""
        return {}

    def start(self, points_ND: Tensor) -> None:
        """Start from averages of feature maps of training images, once before the first step.

        N ≥ start_points where there are so many images; the points are the same on all ranks.
        """


def load(name: str, channels: int | None = None, **parameters: Any) -> Pooling:
    """Return the pooling `name` that gives points of `channels` dimensions."""
    pooling: Pooling = components.build_module("poolings", name, {"channels": channels}, parameters)
    return pooling


def local_features(features_BDHW: Tensor) -> Tensor:
    """Return the features of the positions, (B, N, D); no copy of a channels-last map."""
    return at_least_float32(features_BDHW).flatten(2).mT


def weighted_sum(weights_BN: Tensor, local_BND: Tensor) -> Tensor:
    """Σ_n w_n f_n, (B, D)."""
    return (weights_BN.unsqueeze(1) @ local_BND).squeeze(1)


def magnitude(x: Tensor, *dims: int) -> Tensor:
    """Return the largest |x| over `dims` (kept), never 0, without gradient: a divisor for ratios."""
    return x.detach().abs().amax(dims, keepdim=True).clamp(min=torch.finfo(x.dtype).tiny)


def channels_each(channels: int, clusters: int) -> int:
    """Return the channels of each of `clusters` parts that are put side by side."""
    if channels % clusters:
        below = channels // clusters * clusters
        fitting = f"{below} or {below + clusters}" if below else f"{clusters}"
        raise UserError(
            f"the embedding size must be a multiple of clusters, whose parts it puts side by side; "
            f"got {channels} and {clusters}. Use {fitting} dimensions or other clusters."
        )
    return channels // clusters


def padding_of(kernel_size: int) -> int:
    """Return the padding that keeps the size of the map."""
    if kernel_size % 2 == 0:
        raise UserError(
            f"kernel_size must be odd, so that the map keeps its size; got {kernel_size}. "
            f"Use {kernel_size - 1} or {kernel_size + 1}."
        )
    return kernel_size // 2
