"""Image → point: backbone → 1×1 convolution → pooling → normalisation."""

from __future__ import annotations

from typing import Literal, Self

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from dmltune.core.backbones import Backbone
from dmltune.core.geometry import l2_normalise, lip
from dmltune.core.poolings import Pooling


class Embedder(nn.Module):
    """Images (B, 3, H, W), uint8 or float in [0, 1], to points (B, D) on ("l2") or in ("lip") the unit ball.

    With `frozen_bn` the batch norms keep the running statistics they came with; scale and shift still learn.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        backbone: Backbone,
        pooling: Pooling,
        dim: int,
        normalise: Literal["l2", "lip"] = "l2",
        frozen_bn: bool = False,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.projection = nn.Conv2d(backbone.channels, pooling.in_channels or dim, kernel_size=1)
        self.pooling = pooling
        self.dim, self.normalise, self.frozen_bn = dim, normalise, frozen_bn
        self.register_buffer("mean", torch.tensor(backbone.mean).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(backbone.std).view(1, 3, 1, 1), persistent=False)
        self.to(memory_format=torch.channels_last)

    def forward(self, images_B3HW: Tensor) -> Tensor:
        pooled_BD: Tensor = self.pooling(self.map(images_B3HW))
        return self.normalised(pooled_BD)

    def map(self, images_B3HW: Tensor) -> Tensor:
        """The local features that are pooled, (B, in_channels of the pooling, h, w)."""
        features_BDHW: Tensor = self.projection(self.backbone(self._standardised(images_B3HW)))
        return features_BDHW

    def pooled(self, images_B3HW: Tensor, attributes: bool = False) -> tuple[Tensor, Tensor | None]:
        """(points that are not normalised yet, pseudo-attributes of eq. 5.2.3 where they are asked for)."""
        features_BDHW = self.map(images_B3HW)
        return (
            self.pooling.with_attributes(features_BDHW) if attributes else (self.pooling(features_BDHW), None)
        )

    def normalised(self, pooled_BD: Tensor) -> Tensor:
        return lip(pooled_BD) if self.normalise == "lip" else l2_normalise(pooled_BD)

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        if self.frozen_bn:
            for module in self.modules():
                if isinstance(module, _BatchNorm):
                    module.eval()
        return self

    def _standardised(self, images_B3HW: Tensor) -> Tensor:
        pixels = images_B3HW.to(dtype=self.projection.weight.dtype, memory_format=torch.channels_last)
        if not images_B3HW.is_floating_point():
            pixels = pixels / 255
        return (pixels - self.mean) / self.std
