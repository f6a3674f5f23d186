"""One file a pooling. `module(features_BDHW)` gives (B, D)."""

from __future__ import annotations

from typing import Any

from torch import nn

from dmltune.core import components


def load(name: str, channels: int | None = None, **parameters: Any) -> nn.Module:
    """The pooling `name` over feature maps of `channels` channels."""
    pooling: nn.Module = components.build("poolings", name, {"channels": channels}, parameters)
    return pooling
