"""ResNet-20 for small images: three stages of three basic blocks with 16, 32 and 64 channels."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dmltune.core.backbones import Backbone


class _Block(nn.Module):
    """relu(x + f(x)) with two 3×3 convolutions; a 1×1 convolution on the shortcut where the shape changes."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.shortcut = nn.Sequential()
        if inside != outside or stride != 1:
            conv = nn.Conv2d(inside, outside, 1, stride, bias=False)
            self.shortcut = nn.Sequential(conv, nn.BatchNorm2d(outside))

    def forward(self, x: Tensor) -> Tensor:
        inner = self.bn2(self.conv2(torch.relu_(self.bn1(self.conv1(x)))))
        return torch.relu_(inner.add_(self.shortcut(x)))


class Resnet20(Backbone):
    """CIFAR type: no stride and no pooling in the stem; a 32×32 image gives a map of 8×8."""

    channels = 64
    mean = (0.5, 0.5, 0.5)
    std = (0.5, 0.5, 0.5)

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(16)
        blocks = []
        for inside, outside, stride in ((16, 16, 1), (16, 32, 2), (32, 64, 2)):
            blocks += [_Block(inside, outside, stride), *(_Block(outside, outside, 1) for _ in range(2))]
        self.blocks = nn.Sequential(*blocks)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images_B3HW: Tensor) -> Tensor:
        features: Tensor = self.blocks(torch.relu_(self.bn(self.conv(images_B3HW))))
        return features
