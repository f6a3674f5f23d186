"""Patch tokens as a feature map, and parts of a library's model that the map does not need.

B images, T tokens, C channels, H × W pixels, h × w patches.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def as_map(tokens_BTC: Tensor, height: int, width: int) -> Tensor:
    """Return tokens in reading order as (B, C, h, w), h : w = H : W, without a copy (channels-last)."""
    count = tokens_BTC.shape[1]
    rows = max(1, round(math.sqrt(count * height / width)))
    if not count or count % rows:
        raise ValueError(f"{count} tokens are no map of {height}×{width} pixels")
    return tokens_BTC.mT.reshape(*tokens_BTC.mT.shape[:2], rows, count // rows)


def resized_positions(positions_1TC: Tensor, prefix: int, rows: int, columns: int) -> Tensor:
    """Resize position embeddings of a square grid (bicubic); the first `prefix` stay."""
    side = math.isqrt(positions_1TC.shape[1] - prefix)
    if (rows, columns) == (side, side):
        return positions_1TC
    grid_1Chw = positions_1TC[:, prefix:].mT.reshape(1, -1, side, side)
    grid_1Chw = F.interpolate(grid_1Chw, size=(rows, columns), mode="bicubic", antialias=True)
    return torch.cat([positions_1TC[:, :prefix], grid_1Chw.flatten(2).mT], dim=1)


def freeze_unreached(module: nn.Module, features: Tensor) -> None:
    """Freeze parameters that `features` do not depend on: DistributedDataParallel waits for all others."""
    reached: set[int] = set()
    seen: set[Any] = set()
    waiting: list[Any] = [features.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        reached.add(id(getattr(node, "variable", None)))
        waiting += [before for before, _ in node.next_functions]
    for weight in module.parameters():
        if id(weight) not in reached:
            weight.requires_grad_(False)
