"""Embed images: backbone → 1×1 convolution → pooling → normalisation."""

from __future__ import annotations

from typing import Literal, Self

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from dmltune.core.backbones import Backbone
from dmltune.core.backbones._prefix import SIDE, Cut, split
from dmltune.core.geometry import l2_normalise, lip
from dmltune.core.poolings import Pooling
from dmltune.errors import UserError


class _NoProjection(nn.Identity):
    """Identity with the attributes of a convolution, for pooling the backbone's own features."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.out_channels = channels
        # its type and device
        self.weight = nn.Buffer(torch.empty(0, dtype=torch.float32), persistent=False)


class Embedder(nn.Module):
    """Map images (B, 3, H, W), uint8 or float in [0, 1], to points (B, D).

    Points lie on ("l2") or in ("lip") the unit ball. With `dim` None there is no convolution: points have the
    channels of the backbone. With `frozen_bn` the batch norms keep their running statistics; scale and shift
    still learn. The backbone before the module `frozen_until` ("all": all of it) has no gradient and is in
    inference mode. With `from_maps` set, inputs are results of `at_cut` for images of `side` pixels. With
    `lowered` set, the backbone computes in this type in training mode; all behind its map does not.
    """

    def __init__(
        self,
        backbone: Backbone,
        pooling: Pooling,
        dim: int | None,
        normalise: Literal["l2", "lip"] = "l2",
        frozen_bn: bool = False,
        frozen_until: str | None = None,
        side: int = SIDE,
        channels_last: bool = True,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.projection = _projection(backbone, pooling, dim)
        self.pooling = pooling
        self.dim = dim or backbone.channels
        self.normalise, self.frozen_bn = normalise, frozen_bn
        self.lowered: torch.dtype | None = None
        self.cut: Cut | None = split(backbone, frozen_until, side) if frozen_until else None
        self.from_maps = False
        mean, std = torch.tensor([backbone.mean, backbone.std], dtype=torch.float32).view(2, 1, 3, 1, 1)
        self.mean, self.std = nn.Buffer(mean, persistent=False), nn.Buffer(std, persistent=False)
        self.layout = torch.channels_last if channels_last else torch.contiguous_format
        self.to(memory_format=self.layout)
        if self.cut is not None:
            self.cut.freeze()

    def forward(self, images_B3HW: Tensor) -> Tensor:
        pooled_BD: Tensor = self.pooling(self.map(images_B3HW))
        return self.normalised(pooled_BD)

    def map(self, images_B3HW: Tensor) -> Tensor:
        """Return the local features to pool, (B, in_channels of the pooling, h, w)."""
        device = images_B3HW.device.type
        lowered = self.lowered if self.training else None
        with torch.autocast(device, lowered or torch.bfloat16, enabled=lowered is not None):
            if self.from_maps:
                assert self.cut is not None
                features = self.cut.rest(images_B3HW.to(self.mean.dtype))
            else:
                features = self.backbone(self._standardised(images_B3HW))
        features_BDHW: Tensor = self.projection(features.to(self.mean.dtype))
        return features_BDHW

    @torch.no_grad()
    def at_cut(self, images_B3HW: Tensor) -> Tensor:
        """Return the result of the frozen prefix for images."""
        assert self.cut is not None
        self.cut.set_inference()
        return self.cut.prefix(self._standardised(images_B3HW))

    def pooled(self, images_B3HW: Tensor, attributes: bool = False) -> tuple[Tensor, Tensor | None]:
        """Return (points before normalisation, pseudo-attributes of eq. 5.2.3 if requested)."""
        features_BDHW = self.map(images_B3HW)
        if attributes:
            return self.pooling.with_attributes(features_BDHW)
        return self.pooling(features_BDHW), None

    def normalised(self, pooled_BD: Tensor) -> Tensor:
        return lip(pooled_BD) if self.normalise == "lip" else l2_normalise(pooled_BD)

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        if self.frozen_bn:
            for module in self.modules():
                if isinstance(module, _BatchNorm):
                    module.eval()
        if self.cut is not None:
            self.cut.set_inference()
        return self

    def standardise_with(self, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        """Standardise the pixels of images with these numbers of each channel from now on."""
        for buffer, values in ((self.mean, mean), (self.std, std)):
            buffer.copy_(buffer.new_tensor(values).view(1, 3, 1, 1))

    def _standardised(self, images_B3HW: Tensor) -> Tensor:
        pixels = images_B3HW.to(dtype=self.mean.dtype, memory_format=self.layout)
        if images_B3HW.is_floating_point():
            return (pixels - self.mean) / self.std
        return pixels.div_(255).sub_(self.mean).div_(self.std)  # a new tensor already: in place


def _projection(backbone: Backbone, pooling: Pooling, dim: int | None) -> nn.Conv2d | _NoProjection:
    if dim is not None:
        return nn.Conv2d(backbone.channels, pooling.in_channels or dim, kernel_size=1, dtype=torch.float32)
    if pooling.in_channels not in (None, backbone.channels):
        raise UserError(
            f"embedding.dim none pools the backbone's own {backbone.channels} channels, and this pooling "
            f"takes {pooling.in_channels}; give embedding.dim a number"
        )
    return _NoProjection(backbone.channels)
