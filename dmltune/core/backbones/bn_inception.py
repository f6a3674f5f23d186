"""BN-Inception (Ioffe and Szegedy 2015), the backbone of the papers, with the names of its Caffe model.

`bn_inception-52deb4733.pth` of Cadene's pretrained-models fits as it is; its classifier is left out.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dmltune.core.backbones import Backbone
from dmltune.core.backbones._weights import WeightsSource

WEIGHTS = WeightsSource(
    "bn_inception-52deb4733.pth",
    "https://data.lip6.fr/cadene/pretrainedmodels/bn_inception-52deb4733.pth",
    "52deb473314542a5c2f87e9e6f26f4ca42fe863d15f986414dbae8c2dfdd2353",
    45_000_000,
)


class Branches(NamedTuple):
    """Channels of a block; without `one` and `projection` it halves the map and keeps its pooled input."""

    one: int
    three_reduce: int
    three: int
    double_reduce: int
    double: int
    projection: int


STEM = {"conv1_7x7_s2": (3, 64, 7, 2), "conv2_3x3_reduce": (64, 64, 1, 1), "conv2_3x3": (64, 192, 3, 1)}
BLOCKS = {
    "3a": Branches(64, 64, 64, 64, 96, 32),
    "3b": Branches(64, 64, 96, 64, 96, 64),
    "3c": Branches(0, 128, 160, 64, 96, 0),
    "4a": Branches(224, 64, 96, 96, 128, 128),
    "4b": Branches(192, 96, 128, 96, 128, 128),
    "4c": Branches(160, 128, 160, 128, 160, 128),  # the paper's figure projects to 96 in 4c and 4d
    "4d": Branches(96, 128, 192, 160, 192, 128),
    "4e": Branches(0, 128, 192, 192, 256, 0),
    "5a": Branches(352, 192, 320, 160, 224, 128),
    "5b": Branches(352, 192, 320, 192, 224, 128),
}
MAX_POOLED = "5b"  # the other projections are of an average


class BnInception(Backbone):
    """1,024 channels at a stride of 32: 224 and 227 pixels give a map of 7×7."""

    channels = 1024
    mean = (128 / 255, 117 / 255, 104 / 255)  # the file counts pixels from 0 to 255 and has no deviation
    std = (1 / 255, 1 / 255, 1 / 255)

    def __init__(self) -> None:
        super().__init__()
        for name, (inside, outside, kernel, stride) in STEM.items():
            self._add(name, inside, outside, kernel, stride)
        inside = 192
        for name, branches in BLOCKS.items():
            inside = self._add_block(f"inception_{name}_", inside, branches)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
                assert module.bias is not None
                nn.init.zeros_(module.bias)

    def forward(self, images_B3HW: Tensor) -> Tensor:
        features = self._conv("conv1_7x7_s2", images_B3HW.flip(1))  # the weights are for blue, green, red
        features = self._conv("conv2_3x3_reduce", _halved(features))
        features = _halved(self._conv("conv2_3x3", features))
        for name, branches in BLOCKS.items():
            features = self._block(name, branches, features)
        return features

    def load_tensors(self, tensors: dict[str, Tensor], source: str) -> None:
        """Load weights; files converted from Caffe have batch norms of shape (1, C)."""
        own = self.state_dict()
        flat = {
            name: value.squeeze(0) if value.dim() == 2 and name in own and own[name].dim() == 1 else value
            for name, value in tensors.items()
        }
        super().load_tensors(flat, source)

    @classmethod
    def weights_source(cls, weights: str, model: str) -> WeightsSource:
        return WEIGHTS if weights == "imagenet" else super().weights_source(weights, model)

    def _add(self, name: str, inside: int, outside: int, kernel: int, stride: int = 1) -> None:
        self.add_module(name, nn.Conv2d(inside, outside, kernel, stride, padding=kernel // 2))
        self.add_module(f"{name}_bn", nn.BatchNorm2d(outside))

    def _add_block(self, at: str, inside: int, to: Branches) -> int:
        """Add a block and return its number of output channels."""
        stride = 1 if to.one else 2
        if to.one:
            self._add(f"{at}1x1", inside, to.one, 1)
            self._add(f"{at}pool_proj", inside, to.projection, 1)
        self._add(f"{at}3x3_reduce", inside, to.three_reduce, 1)
        self._add(f"{at}3x3", to.three_reduce, to.three, 3, stride)
        self._add(f"{at}double_3x3_reduce", inside, to.double_reduce, 1)
        self._add(f"{at}double_3x3_1", to.double_reduce, to.double, 3)
        self._add(f"{at}double_3x3_2", to.double, to.double, 3, stride)
        return to.one + to.three + to.double + (to.projection or inside)

    def _block(self, name: str, to: Branches, features: Tensor) -> Tensor:
        at = f"inception_{name}_"
        three = self._conv(f"{at}3x3", self._conv(f"{at}3x3_reduce", features))
        double = self._conv(f"{at}double_3x3_1", self._conv(f"{at}double_3x3_reduce", features))
        double = self._conv(f"{at}double_3x3_2", double)
        if not to.one:
            return torch.cat([three, double, _halved(_even(features))], 1)
        pool = F.max_pool2d if name == MAX_POOLED else F.avg_pool2d
        projected = self._conv(f"{at}pool_proj", pool(features, 3, 1, 1))
        return torch.cat([self._conv(f"{at}1x1", features), three, double, projected], 1)

    def _conv(self, name: str, features: Tensor) -> Tensor:
        conv, norm = self.get_submodule(name), self.get_submodule(f"{name}_bn")
        return torch.relu_(norm(conv(features)))


def _halved(features: Tensor) -> Tensor:
    """Return Caffe's 3×3 maximum at stride 2, whose size is rounded up."""
    return F.max_pool2d(features, 3, 2, ceil_mode=True)


def _even(features: Tensor) -> Tensor:
    """Pad a map with odd sides by zeros, which change no maximum after a relu.

    Caffe's net takes only sizes whose maps are even where a block halves them (224, 227, 256). On others the
    padding makes the pooled part fit the rest of the block.
    """
    height, width = features.shape[2:]
    if height % 2 == width % 2 == 0:
        return features
    return F.pad(features, (0, width % 2, 0, height % 2))
