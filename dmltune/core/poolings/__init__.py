"""One file a pooling. `module(features_BDHW)` gives (B, channels), not normalised."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from dmltune.core import components


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

    def start(self, points_ND: Tensor) -> None:
        """Start from averages of feature maps of training images, once before the first step.

        N ≥ start_points where there are so many images; the points are the same on all ranks.
        """


def load(name: str, channels: int | None = None, **parameters: Any) -> Pooling:
    """Return the pooling `name` that gives points of `channels` dimensions."""
    pooling: Pooling = components.build_module("poolings", name, {"channels": channels}, parameters)
    return pooling
