"""ResNetV2-20 for small images: the backbone of the thesis' MNIST experiments.

Pre-activation units of He et al. 2016, "Identity Mappings in Deep Residual Networks".
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dmltune.core.backbones import Backbone

STAGES = ((16, 1), (32, 2), (64, 2))  # channels and the stride of the first unit
UNITS = 3


class _PreActivationUnit(nn.Module):
    """x (or a 1×1 convolution of a) + conv₂(relu(bn₂(conv₁(a)))) with a = relu(bn₁(x))."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inside)
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1, bias=False)
        self.shortcut = None
        if inside != outside or stride != 1:
            self.shortcut = nn.Conv2d(inside, outside, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        active = torch.relu_(self.bn1(x))
        inner: Tensor = self.conv2(torch.relu_(self.bn2(self.conv1(active))))
        return inner.add_(x if self.shortcut is None else self.shortcut(active))


class Resnetv220(Backbone):
    """CIFAR type: a 32×32 image gives a map of 8×8, after the last batch norm and relu."""

    channels = 64
    mean = (0.5, 0.5, 0.5)
    std = (0.5, 0.5, 0.5)

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        units, inside = [], 16
        for channels, stride in STAGES:
            for number in range(UNITS):
                units.append(_PreActivationUnit(inside, channels, 1 if number else stride))
                inside = channels
        self.units = nn.Sequential(*units)
        self.bn = nn.BatchNorm2d(inside)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images_B3HW: Tensor) -> Tensor:
        return torch.relu_(self.bn(self.units(self.conv(images_B3HW))))
