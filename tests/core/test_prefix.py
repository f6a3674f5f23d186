"""Backbones cut in two: the parts compute what the whole does, and nothing before the cut learns."""

from __future__ import annotations

import copy
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

from dmltune.core import backbones, poolings
from dmltune.core.backbones import Backbone
from dmltune.core.backbones._prefix import split
from dmltune.core.embedder import Embedder
from dmltune.core.optimizers import parameter_groups
from dmltune.errors import UserError

SIDE = 64
CUTS = {
    "resnet20": ("blocks.3", "blocks", "5", "all"),
    "bn_inception": ("inception_4a", "conv2_3x3"),
    "face_resnet": ("layers.5",),
    "efficientnet_lite0": ("blocks.5", "blocks.2.1", "conv_head"),
    "torchvision/resnet18": ("layer4", "layer3.1"),
    "torchvision/mobilenet_v3_small": ("features.7", "7"),
    "torchvision/googlenet": ("inception4a",),
    "torchvision/densenet121": ("denseblock4",),
    "timm/resnet18": ("layer4",),
    "timm/convnext_atto": ("stages.3",),
}
CASES = [(name, until) for name, untils in CUTS.items() for until in untils]


def images(count: int = 2) -> Tensor:
    return torch.rand(count, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(1))


def frozen_names(net: Embedder) -> list[str]:
    return [name for name, weight in net.backbone.named_parameters() if not weight.requires_grad]


def loaded(name: str) -> Backbone:
    if name.startswith("timm") or name == "efficientnet_lite0":
        pytest.importorskip("timm")
    torch.manual_seed(0)
    return backbones.load(name)


@pytest.mark.parametrize(("name", "until"), CASES)
@torch.no_grad()
def test_the_parts_compute_bit_for_bit_what_the_whole_does(name: str, until: str) -> None:
    backbone = loaded(name)
    before = {key: value.clone() for key, value in backbone.state_dict().items()}
    cut = split(backbone, until, SIDE)
    assert backbone.training
    assert all(torch.equal(value, before[key]) for key, value in backbone.state_dict().items())
    backbone.eval()
    assert torch.equal(cut.rest(cut.prefix(images())), backbone(images()))


def test_what_stands_before_the_module_is_frozen_and_nothing_else() -> None:
    net = Embedder(
        loaded("efficientnet_lite0"), poolings.load("gap"), 8, frozen_until="blocks.5", side=SIDE
    ).train()
    frozen = set(frozen_names(net))
    first = tuple(f"net.{part}." for part in ("conv_stem", "bn1", *(f"blocks.{n}" for n in range(5))))
    norms = {
        f"{name}.": module
        for name, module in net.backbone.named_modules()
        if isinstance(module, nn.BatchNorm2d)
    }
    assert frozen == {name for name, _ in net.backbone.named_parameters() if name.startswith(first)}
    assert all(module.training != name.startswith(first) for name, module in norms.items())
    before = {name: value.clone() for name, value in net.backbone.state_dict().items()}
    torch.autograd.backward(net(images(3)).square().sum())
    graded = {name for name, weight in net.backbone.named_parameters() if weight.grad is not None}
    assert graded == {name for name, _ in net.backbone.named_parameters()} - frozen
    moved = {
        name for name, value in net.backbone.state_dict().items() if not torch.equal(value, before[name])
    }
    assert moved
    assert not any(name.startswith(first) for name in moved)


def test_the_optimiser_and_the_proximal_term_leave_the_frozen_part_out(toy: ModuleType) -> None:
    goal = toy.objective("ccp")
    whole = goal.weights_W().numel()
    net = goal.embedder
    goal.embedder = Embedder(net.backbone, net.pooling, toy.DIM, "lip", frozen_until="conv2", side=toy.SIDE)
    frozen = [net.backbone.conv1.weight, net.backbone.bn1.weight, net.backbone.bn1.bias]
    assert whole - goal.weights_W().numel() == sum(weight.numel() for weight in frozen)
    trained = {id(weight) for group in parameter_groups(goal, 0.1, 0.0) for weight in group["params"]}
    assert not trained & {id(weight) for weight in frozen}


def test_all_freezes_the_whole_backbone() -> None:
    net = Embedder(loaded("resnet20"), poolings.load("gap"), 8, frozen_until="all", side=SIDE).train()
    assert len(frozen_names(net)) == len(list(net.backbone.parameters()))
    assert not any(module.training for module in net.backbone.modules())
    assert net.projection.training


def test_an_embedder_takes_the_maps_at_its_cut_and_so_does_a_copy_of_it() -> None:
    net = Embedder(loaded("resnet20"), poolings.load("gap"), 8, frozen_until="blocks.6", side=SIDE).eval()
    expected, maps = net(images()), net.at_cut(images())
    twin = copy.deepcopy(net)
    for one in (net, twin):
        one.from_maps = True
        assert torch.equal(one(maps), expected)
    nn.init.zeros_(net.projection.weight)
    assert torch.equal(twin(maps), expected)


def test_the_digest_follows_what_the_prefix_computes_and_not_the_rest() -> None:
    backbone = loaded("resnet20")
    cut = split(backbone, "blocks.3", SIDE)
    first = cut.digest()
    assert split(loaded("resnet20"), "blocks.3", SIDE).digest() == first
    assert split(backbone, "blocks.4", SIDE).digest() != first
    with torch.no_grad():
        backbone.blocks[3].conv1.weight.add_(1)  # type: ignore[union-attr, index, operator]
        assert cut.digest() == first
        backbone.bn.running_var.add_(1)  # type: ignore[union-attr, operator]
    assert cut.digest() != first


class Dropping(Backbone):
    """A dropout without a module of its own, and a weight that is used on both sides."""

    channels = 4

    def __init__(self, drop: bool, twice: bool) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 1)
        self.mix = nn.Conv2d(4, 4, 1)
        self.drop, self.twice = drop, twice

    def forward(self, images_B3HW: Tensor) -> Tensor:
        features = self.mix(self.one(images_B3HW))
        if self.drop:
            features = nn.functional.dropout(features, 0.5, self.training)
        features = self.two(features)
        out: Tensor = self.mix(features) if self.twice else features
        return out


@pytest.mark.parametrize(
    ("backbone", "until", "message"),
    [
        (None, "blocks.33", "no module 'blocks.33' for frozen_until; did you mean 'blocks.3'"),
        (None, "zzz", "no module 'zzz' for frozen_until; there are conv, bn, blocks, blocks.0"),
        (None, "conv", "cannot be cut at frozen_until 'conv': nothing stands before it"),
        (None, "conv2", "'conv2' may be blocks.0.conv2 or blocks.1.conv2; give the longer name"),
        (None, "blocks.3.conv2", "besides its input 'blocks_2' goes on; choose a module on the main path"),
        (Dropping(True, False), "two", "it computes otherwise in training"),
        (Dropping(False, True), "two", "'mix' is used on both sides"),
        (Dropping(False, True), "mix", "it is called 2 times"),
    ],
)
def test_a_cut_that_cannot_be_is_refused_in_one_line(
    backbone: Backbone | None, until: str, message: str
) -> None:
    with pytest.raises(UserError) as caught:
        split(backbone or loaded("resnet20"), until, 32)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
