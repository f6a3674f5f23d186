"""Shared parts of the poolings: maps as bags of local features, and validation of parameters.

B images, D channels, H × W = N positions.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dmltune.core.geometry import at_least_float32
from dmltune.errors import UserError


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
