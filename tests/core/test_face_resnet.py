"""The face networks of seed 001: their layers, their map, what they are given, how they start."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dmltune.core import backbones, poolings
from dmltune.core.backbones.face_resnet import FaceResnet
from dmltune.core.embedder import Embedder

UNITS = {"face_resnet": (3, 4, 6, 3), "face_resnet_small": (1, 1, 1, 1)}
STAGES = (64, 128, 256, 512)
both = pytest.mark.parametrize("name", UNITS)


def written_out(name: str, net: FaceResnet, images: Tensor) -> Tensor:
    """Stage by stage from the bare weights, in the order they were made."""
    weights = iter(net.parameters())

    def prelu(x: Tensor) -> Tensor:
        slope = next(weights).view(1, -1, 1, 1)
        return torch.where(x > 0, x, slope * x)

    x = images
    for units in UNITS[name]:
        x = prelu(F.conv2d(x, next(weights), next(weights), stride=2, padding=1))
        for _ in range(units):
            inner = prelu(F.conv2d(x, next(weights), padding=1))
            x = x + prelu(F.conv2d(inner, next(weights), padding=1))
    assert next(weights, None) is None
    return x


@both
def test_the_map_is_that_of_the_network_written_out(name: str) -> None:
    net = backbones.load(name)
    assert isinstance(net, FaceResnet)
    images = torch.randn(2, 3, 48, 32)
    with torch.no_grad():
        for weight in net.parameters():
            weight.mul_(3)  # so that the units do something
        torch.testing.assert_close(net(images), written_out(name, net, images), rtol=1e-4, atol=1e-5)


@both
def test_a_face_of_112_pixels_gives_a_map_of_7(name: str) -> None:
    net = backbones.load(name).eval()
    with torch.no_grad():
        assert net(torch.zeros(1, 3, 112, 112)).shape == (1, net.channels, 7, 7) == (1, 512, 7, 7)


@both
def test_it_has_the_units_of_the_text_and_a_convolution_of_stride_2_before_each_stage(name: str) -> None:
    convolutions = [module for module in backbones.load(name).modules() if isinstance(module, nn.Conv2d)]
    expected = []
    for channels, units in zip(STAGES, UNITS[name], strict=True):
        expected += [(channels, (2, 2)), *[(channels, (1, 1))] * (2 * units)]
    assert [(conv.out_channels, conv.stride) for conv in convolutions] == expected
    assert len(convolutions) == {"face_resnet": 36, "face_resnet_small": 12}[name]


def test_the_first_layer_sees_pixels_less_127_and_a_half_over_128() -> None:
    net = Embedder(backbones.load("face_resnet"), poolings.load("gap"), 8).eval()
    seen: list[Tensor] = []
    net.backbone.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    pixels = torch.randint(0, 256, (1, 3, 32, 32), dtype=torch.uint8)
    with torch.no_grad():
        net(pixels)
    torch.testing.assert_close(seen[0], (pixels.float() - 127.5) / 128, rtol=0, atol=1e-5)


def test_the_units_begin_as_nearly_the_identity_so_that_34_layers_train_without_batch_norm() -> None:
    net = backbones.load("face_resnet")
    images = torch.randn(2, 3, 64, 64)
    features = net(images)
    assert 1e-3 < float(features.detach().std()) < 10
    torch.autograd.backward(features.square().mean())
    for name, weight in net.named_parameters():
        assert weight.grad is not None, name
        assert bool(weight.grad.isfinite().all()), name
        assert bool(weight.grad.any()), name
