"""The face network of seed 001, §4: SphereFace's ResNet (Liu et al. 2017) with (3, 4, 6, 3) units."""

from __future__ import annotations

from typing import ClassVar, cast

from torch import Tensor, nn

from dmltune.core.backbones import Backbone


class _FaceUnit(nn.Module):
    """x + f(x) with two 3×3 convolutions, each followed by a PReLU."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for _ in range(2):
            conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
            nn.init.normal_(conv.weight, std=0.01)  # a unit begins as nearly the identity: no batch norm
            layers += [conv, nn.PReLU(channels)]
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.layers(x)).add_(x)


class FaceResnet(Backbone):
    """Aligned faces of 112×112 give a map of 7×7.

    Every stage is a convolution of stride 2 and its units: 36 convolutions, where the text counts 34 layers.
    The embedder's 1×1 convolution and pooling replace the fully connected layer behind the map.
    """

    stages: ClassVar = ((64, 3), (128, 4), (256, 6), (512, 3))  # channels and residual units
    channels = 512
    mean = (127.5 / 255, 127.5 / 255, 127.5 / 255)  # (pixel − 127.5) / 128
    std = (128 / 255, 128 / 255, 128 / 255)

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        inside = 3
        for channels, units in self.stages:
            conv = nn.Conv2d(inside, channels, 3, 2, padding=1)
            nn.init.xavier_uniform_(conv.weight)
            nn.init.zeros_(cast(Tensor, conv.bias))
            layers += [conv, nn.PReLU(channels), *(_FaceUnit(channels) for _ in range(units))]
            inside = channels
        self.layers = nn.Sequential(*layers)

    def forward(self, images_B3HW: Tensor) -> Tensor:
        features: Tensor = self.layers(images_B3HW)
        return features
