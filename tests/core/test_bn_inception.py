"""BN-Inception against its published table, the names of its weights file and a forward pass written out."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from dmltune.core import backbones, poolings
from dmltune.core.backbones.bn_inception import BnInception, _even
from dmltune.core.embedder import Embedder
from dmltune.errors import UserError

# What leaves each layer at 224×224, as the Caffe model prints it: channels and side.
PUBLISHED = {
    "conv1_7x7_s2": (64, 112),
    "conv2_3x3_reduce": (64, 56),
    "conv2_3x3": (192, 56),
    "3a": (64 + 64 + 96 + 32, 28),
    "3b": (64 + 96 + 96 + 64, 28),
    "3c": (160 + 96 + 320, 14),
    "4a": (224 + 96 + 128 + 128, 14),
    "4b": (192 + 128 + 128 + 128, 14),
    "4c": (160 + 160 + 160 + 128, 14),
    "4d": (96 + 192 + 192 + 128, 14),
    "4e": (192 + 256 + 608, 7),
    "5a": (352 + 320 + 224 + 128, 7),
    "5b": (352 + 320 + 224 + 128, 7),
}
BRANCHES = ("3x3_reduce", "3x3", "double_3x3_reduce", "double_3x3_1", "double_3x3_2")


def layers() -> list[str]:
    """The convolutions of the weights file."""
    names = ["conv1_7x7_s2", "conv2_3x3_reduce", "conv2_3x3"]
    for block in list(PUBLISHED)[3:]:
        branches = BRANCHES if block in ("3c", "4e") else (*BRANCHES, "1x1", "pool_proj")
        names += [f"inception_{block}_{branch}" for branch in branches]
    return names


@pytest.fixture
def net() -> BnInception:
    """With batch norms that do something, as if trained."""
    made = backbones.load("bn_inception")
    assert isinstance(made, BnInception)
    for name, value in made.state_dict().items():
        if "_bn." in name and value.is_floating_point():
            value.copy_(torch.rand_like(value) * 0.5 + 0.75 * ("bias" not in name and "mean" not in name))
        elif name.endswith(".bias"):
            value.copy_(torch.randn_like(value) * 0.1)
    return made.eval()


def written_out(weights: dict[str, Tensor], images: Tensor) -> dict[str, Tensor]:
    """The Caffe model, layer by layer: convolution, batch norm with eps 1e-5, relu. Outputs by name."""
    found: dict[str, Tensor] = {}

    def conv(name: str, x: Tensor, stride: int = 1, padding: int = 0) -> Tensor:
        x = F.conv2d(x, weights[f"{name}.weight"], weights[f"{name}.bias"], stride, padding)
        scale, shift, mean, var = (
            weights[f"{name}_bn.{part}"].view(1, -1, 1, 1)
            for part in ("weight", "bias", "running_mean", "running_var")
        )
        found[name] = ((x - mean) / (var + 1e-5).sqrt() * scale + shift).clamp(min=0)
        return found[name]

    def pool(x: Tensor) -> Tensor:
        return F.max_pool2d(x, 3, 2, ceil_mode=True)

    x = pool(conv("conv1_7x7_s2", images[:, [2, 1, 0]], 2, 3))
    x = pool(conv("conv2_3x3", conv("conv2_3x3_reduce", x), padding=1))
    for block in list(PUBLISHED)[3:]:
        at = f"inception_{block}_"
        stride = 2 if block in ("3c", "4e") else 1
        three = conv(at + "3x3", conv(at + "3x3_reduce", x), stride, 1)
        double = conv(at + "double_3x3_1", conv(at + "double_3x3_reduce", x), 1, 1)
        double = conv(at + "double_3x3_2", double, stride, 1)
        if stride == 2:
            parts = [three, double, pool(x)]
        else:
            windows = F.unfold(x, 3, padding=1).view(*x.shape[:2], 9, *x.shape[2:])
            # zeros beside the map count in the average, as in Caffe, and lose every maximum after a relu
            pooled = windows.amax(2) if block == "5b" else windows.mean(2)
            parts = [conv(at + "1x1", x), three, double, conv(at + "pool_proj", pooled)]
        x = found[block] = torch.cat(parts, 1)
    return found


def test_the_map_is_that_of_the_model_written_out(net: BnInception) -> None:
    net = net.double()
    images = torch.randn(2, 3, 96, 64, dtype=torch.float64)
    expected = written_out(dict(net.state_dict()), images)["5b"]
    assert expected.shape == (2, 1024, 3, 2)
    torch.testing.assert_close(net(images), expected, rtol=1e-9, atol=1e-9)


def test_every_layer_has_the_published_channels_and_size(net: BnInception) -> None:
    with torch.no_grad():
        found = written_out(dict(net.state_dict()), torch.randn(1, 3, 224, 224))
    assert {name: (found[name].shape[1], found[name].shape[2]) for name in PUBLISHED} == PUBLISHED


@pytest.mark.parametrize(("side", "to"), [(224, 7), (227, 7), (256, 8), (32, 1), (200, 7), (240, 8)])
def test_the_map_has_a_side_for_every_size(net: BnInception, side: int, to: int) -> None:
    """224, 227 and 256 as Caffe; 200 and 240, whose maps are odd where a block halves them, rounded up."""
    with torch.no_grad():
        assert net(torch.zeros(1, 3, side, side)).shape == (1, 1024, to, to)


def test_an_odd_map_is_pooled_over_what_is_there() -> None:
    x = torch.rand(1, 2, 5, 6)
    pooled = F.max_pool2d(_even(x), 3, 2, ceil_mode=True)
    assert pooled.shape == (1, 2, 3, 3)
    for i in range(3):
        for j in range(3):
            window = x[:, :, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3]
            assert torch.equal(pooled[:, :, i, j], window.amax((2, 3)))
    even = torch.rand(1, 2, 4, 6)
    assert _even(even) is even


def test_it_has_the_published_number_of_parameters() -> None:
    """11,295,240 with the classifier of 1,000 classes."""
    count = sum(weight.numel() for weight in backbones.load("bn_inception").parameters())
    assert count == 11_295_240 - 1000 * (1024 + 1)


def test_the_well_known_weights_file_fits_name_by_name(net: BnInception, tmp_path: Path) -> None:
    names = {f"{layer}.{part}" for layer in layers() for part in ("weight", "bias")}
    names |= {
        f"{layer}_bn.{part}"
        for layer in layers()
        for part in ("weight", "bias", "running_mean", "running_var")
    }
    own = net.state_dict()
    assert {name for name in own if not name.endswith("num_batches_tracked")} == names
    classifier = {"last_linear.weight": torch.zeros(1000, 1024), "last_linear.bias": torch.zeros(1000)}
    torch.save({name: own[name] for name in names} | classifier, tmp_path / "bn_inception-52deb4733.pth")
    loaded = backbones.load("bn_inception", str(tmp_path / "bn_inception-52deb4733.pth")).state_dict()
    assert all(torch.equal(loaded[name], own[name]) for name in names)


def test_the_first_layer_sees_blue_green_red_from_0_to_255_less_the_mean_of_the_file() -> None:
    net = Embedder(backbones.load("bn_inception"), poolings.load("gap"), 8).eval()
    seen: list[Tensor] = []
    first = net.backbone.get_submodule("conv1_7x7_s2")
    first.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    red, green, blue = 200, 100, 50
    pixels = torch.tensor([red, green, blue], dtype=torch.uint8).view(1, 3, 1, 1).expand(1, 3, 32, 32)
    with torch.no_grad():
        net(pixels)
    expected = torch.tensor([blue - 104.0, green - 117.0, red - 128.0]).view(1, 3, 1, 1)
    torch.testing.assert_close(seen[0], expected.expand(1, 3, 32, 32), rtol=0, atol=1e-4)
    assert seen[0].is_contiguous(memory_format=torch.channels_last)


def test_training_reaches_every_parameter_with_finite_gradients() -> None:
    net = Embedder(backbones.load("bn_inception"), poolings.load("gap"), 8).train()
    out = net(torch.randint(0, 256, (4, 3, 64, 64), dtype=torch.uint8))
    torch.autograd.backward((out * torch.randn_like(out)).sum())
    for name, weight in net.named_parameters():
        assert weight.grad is not None, name
        assert bool(weight.grad.isfinite().all()), name


def test_weights_by_name_say_which_file_to_get() -> None:
    with pytest.raises(
        UserError, match=r"\(bn_inception-52deb4733\.pth\) are not here; dmltune weights fetch bn_inception"
    ) as caught:
        backbones.load("bn_inception", "imagenet")
    assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match="no weights 'packaged'"):
        backbones.load("bn_inception", "packaged")
