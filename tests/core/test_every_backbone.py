"""The contract of every backbone, found by file name, and of a few of each library: a map that every pooling
takes, weights files that fit or say why not, and a gradient for all that learns.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dmltune.core import backbones, components, poolings
from dmltune.core.backbones import Backbone, _maps, from_torchvision
from dmltune.core.embedder import Embedder
from dmltune.errors import UserError

timm = pytest.importorskip("timm")
torchvision = pytest.importorskip("torchvision")

OWN = components.names("backbones")
LIBRARIES = (
    *("torchvision/resnet18", "torchvision/resnet50", "torchvision/googlenet", "torchvision/tiny_vit"),
    *("timm/resnet18", "timm/test_vit", "timm/test_vit2", "timm/test_convnext"),
    "timm/swin_tiny_patch4_window7_224",
)
LARGE = ("torchvision/resnet50", "timm/swin_tiny_patch4_window7_224")
POOLINGS = components.names("poolings")
SIDE, BATCH, DIM = 64, 2, 16
SMALL: dict[str, dict[str, Any]] = {"gsp": {"prototypes": 4}}


def tiny_vit() -> nn.Module:
    """torchvision's own class; its smallest named model has 86 million weights."""
    net: nn.Module = torchvision.models.VisionTransformer(
        image_size=SIDE, patch_size=16, num_layers=2, num_heads=2, hidden_dim=32, mlp_dim=48
    )
    return net


def load(name: str, weights: str = "none") -> Backbone:
    with pytest.MonkeyPatch.context() as patch:
        if name == "torchvision/tiny_vit":
            patch.setattr(from_torchvision, "_net", lambda model: tiny_vit())
        return backbones.load(name, weights)


def theirs(name: str) -> nn.Module:
    """The library's own model, with other weights than `load` gives."""
    library, _, model = name.partition("/")
    torch.manual_seed(7)
    if model == "tiny_vit":
        return tiny_vit()
    options = {"init_weights": False, "aux_logits": False} if model == "googlenet" else {}
    made: nn.Module = (
        timm.create_model(model) if library == "timm" else torchvision.models.get_model(model, **options)
    )
    return made


class Given(Backbone):
    """A backbone that has done its work."""

    def __init__(self, features: Tensor) -> None:
        super().__init__()
        self.features, self.channels = features, features.shape[1]

    def forward(self, images_B3HW: Tensor) -> Tensor:
        return self.features


@lru_cache(maxsize=len(OWN) + len(LIBRARIES))
def run_once(name: str) -> tuple[Backbone, Tensor]:
    """A backbone and its map of random images, with the graph behind it."""
    torch.manual_seed(0)
    net = load(name).train()
    return net, net(torch.randn(BATCH, 3, SIDE, SIDE))


def inside(net: Backbone) -> Any:
    """What has the names of the tensors in a weights file."""
    return getattr(net, "net", net)


def learning(net: nn.Module) -> dict[str, nn.Parameter]:
    return {name: weight for name, weight in net.named_parameters() if weight.requires_grad}


@pytest.mark.parametrize("name", [*OWN, *LIBRARIES])
def test_every_pooling_takes_the_map_and_sends_a_gradient_back(name: str) -> None:
    net, features = run_once(name)
    for pooling_name in POOLINGS:
        require_gradient(net, features, pooling_name)


def require_gradient(net: Backbone, features: Tensor, pooling_name: str) -> None:
    pooling = poolings.load(pooling_name, channels=DIM, **SMALL.get(pooling_name, {}))
    embedder, images = Embedder(Given(features), pooling, DIM).train(), torch.zeros(BATCH, 3, SIDE, SIDE)
    if pooling.start_points:
        pooling.start(embedder.map(images).detach().mean((2, 3)))
    points_BD = embedder(images)
    assert points_BD.shape == (BATCH, DIM)
    direction_BD = torch.randn(BATCH, DIM)
    first = next(iter(learning(net).values()))
    weights = [first, *embedder.parameters()]
    gradients = torch.autograd.grad((points_BD * direction_BD).sum(), weights, retain_graph=True)
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert gradients[0].abs().max() > 0


@pytest.mark.parametrize("name", [*OWN, *LIBRARIES])
def test_all_that_learns_in_it_gets_a_finite_gradient(name: str) -> None:
    """DistributedDataParallel waits for every parameter that learns."""
    net, features = run_once(name)
    weights = learning(net)
    loss = (features * torch.randn_like(features)).sum()
    gradients = torch.autograd.grad(loss, list(weights.values()), retain_graph=True)
    assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("name", [*OWN, *LIBRARIES])
def test_the_map_has_the_channels_it_announces_and_the_shape_of_the_images(name: str) -> None:
    net, features = run_once(name)
    assert features.shape[:2] == (BATCH, net.channels)
    assert features.shape[2] == features.shape[3] >= 2
    with torch.no_grad():
        wide = net.eval()(torch.zeros(1, 3, SIDE, 3 * SIDE // 2))
    net.train()
    assert wide.shape[2:] == (features.shape[2], 3 * features.shape[2] // 2)


@pytest.mark.parametrize("name", [*OWN, *LIBRARIES])
def test_weights_of_wrong_shapes_are_refused_with_the_first_three(name: str) -> None:
    net, _ = run_once(name)
    tensors = dict(inside(net).state_dict())
    wrong = [key for key in tensors if not key.endswith("num_batches_tracked")][1:5]
    for key in wrong:
        tensors[key] = torch.zeros(2, 3)
    with pytest.raises(UserError) as caught:
        net.load_tensors(tensors, "wrong.safetensors")
    said = str(caught.value)
    own = inside(net).state_dict()
    assert f"4 of {sum(not key.endswith('num_batches_tracked') for key in own)} tensors" in said
    assert all(f"{key} {tuple(own[key].shape)}" in said for key in wrong[:3])
    assert wrong[3] not in said
    assert "\n" not in said


@pytest.mark.parametrize("name", [name for name in LIBRARIES if name not in LARGE])
def test_a_weights_file_with_the_librarys_own_names_fits(name: str, tmp_path: Path) -> None:
    net = theirs(name).eval()
    torch.save(net.state_dict(), tmp_path / "weights.pth")
    ours = load(name, str(tmp_path / "weights.pth"))
    expected = net.state_dict()
    for key, value in inside(ours).state_dict().items():
        renamed = "fc_" + key if key.startswith("norm.") and key not in expected else key
        assert torch.equal(value, expected[renamed]), key
    again, fresh = ours.state_dict(), load(name)
    fresh.load_tensors({f"backbone.{key}": value for key, value in again.items()}, "a model trained here")
    assert all(torch.equal(value, again[key]) for key, value in fresh.state_dict().items())


def test_a_new_file_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one_layer.py").write_text(
        "from torch import nn\n"
        "from dmltune.core.backbones import Backbone\n\n\n"
        "class OneLayer(Backbone):\n"
        "    channels = 3\n\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.conv = nn.Conv2d(3, 3, 1)\n\n"
        "    def forward(self, images):\n"
        "        return self.conv(images)\n"
    )
    folders = [*backbones.__path__, str(tmp_path)]
    monkeypatch.setattr(backbones, "__path__", folders)
    monkeypatch.setattr(backbones.__spec__, "submodule_search_locations", folders)
    assert components.names("backbones") == tuple(sorted([*OWN, "one_layer"]))
    assert backbones.load("one_layer")(torch.zeros(1, 3, 4, 4)).shape == (1, 3, 4, 4)


def test_tokens_in_reading_order_are_the_map() -> None:
    for rows, columns in ((2, 3), (1, 1), (4, 2), (14, 10)):
        expected = torch.randn(2, 5, rows, columns)
        tokens = expected.flatten(2).mT
        assert torch.equal(_maps.as_map(tokens, 16 * rows, 16 * columns), expected)
    with pytest.raises(ValueError, match="5 tokens are no map of 32×32 pixels"):
        _maps.as_map(torch.zeros(1, 5, 2), 32, 32)


def test_patches_of_torchvisions_vit_are_those_of_its_encoder_without_the_class_token() -> None:
    net = load("torchvision/tiny_vit").eval()
    whole: Any = tiny_vit().eval()
    whole.load_state_dict(net.state_dict(), strict=False)
    images = torch.randn(2, 3, SIDE, SIDE)
    seen: list[Tensor] = []
    whole.encoder.register_forward_hook(lambda *call: seen.append(call[2]))
    with torch.no_grad():
        whole(images)
        torch.testing.assert_close(net(images).flatten(2).mT, seen[0][:, 1:])


@pytest.mark.parametrize("name", ["torchvision/tiny_vit", "timm/test_vit", "timm/test_vit2"])
def test_vits_take_images_of_other_sizes_and_leave_out_what_fills_no_patch(name: str) -> None:
    net = run_once(name)[0].eval()
    images = torch.randn(1, 3, 90, 70)
    with torch.no_grad():
        features = net(images)
        assert features.shape == (1, net.channels, 5, 4)
        torch.testing.assert_close(net(images[:, :, :80, :64]), features)
    net.train()


def test_position_embeddings_are_resized_as_timm_does_it() -> None:
    positions_1TC = torch.randn(1, 1 + 16, 6)
    expected = timm.layers.resample_abs_pos_embed(positions_1TC, [5, 3], num_prefix_tokens=1)
    torch.testing.assert_close(_maps.resized_positions(positions_1TC, 1, 5, 3), expected)
    assert _maps.resized_positions(positions_1TC, 1, 4, 4) is positions_1TC


@pytest.mark.parametrize("name", ["timm/test_vit", "timm/test_vit2", "timm/swin_tiny_patch4_window7_224"])
def test_maps_of_timm_hold_the_features_of_timm(name: str) -> None:
    net = run_once(name)[0].eval()
    images, inner = torch.randn(1, 3, SIDE, SIDE), inside(net)
    with torch.no_grad():
        features, raw = net(images), inner.forward_features(images)
    net.train()
    if raw.dim() == 4:  # Swin: (B, h, w, C)
        assert torch.equal(features, raw.permute(0, 3, 1, 2))
        assert features.is_contiguous(memory_format=torch.channels_last)
    else:
        prefix = raw.shape[1] - features.shape[2] * features.shape[3]
        assert prefix == inner.num_prefix_tokens == 1
        assert torch.equal(features.flatten(2).mT, raw[:, prefix:])


def test_a_head_behind_the_map_does_not_learn() -> None:
    net = load("timm/mobilenetv3_small_050")
    idle = {name.split(".")[1] for name, weight in net.named_parameters() if not weight.requires_grad}
    assert idle == {"conv_head", "norm_head"} & {name.split(".")[1] for name, _ in net.named_parameters()}
    features = net(torch.randn(2, 3, 64, 64))
    torch.autograd.grad(features.sum(), list(learning(net).values()))  # an unused one would raise


@pytest.mark.parametrize(
    ("name", "side", "said"),
    [
        ("timm/convit_tiny", 96, r"backbone timm/convit_tiny takes no images of 96×96 pixels \(.*224"),
        ("torchvision/tiny_vit", 12, r"takes no images of 12×12 pixels"),
        ("timm/test_vit", 12, r"takes no images of 12×12 pixels|leave backbone timm/test_vit no map"),
        ("torchvision/inception_v3", 32, r"takes no images of 32×32 pixels .*choose another data\.size"),
    ],
)
def test_a_size_that_does_not_fit_is_one_line(name: str, side: int, said: str) -> None:
    net = load(name)
    with pytest.raises(UserError, match=said) as caught:
        backbones.require_size(net, name, side)
    assert "\n" not in str(caught.value)
    assert net.training


def test_a_size_that_fits_is_accepted() -> None:
    for name in (*OWN, *LIBRARIES):
        backbones.require_size(run_once(name)[0], name, SIDE)


def test_resnetv2_20_is_that_of_its_paper() -> None:
    net = run_once("resnetv2_20")[0]
    convolutions = [module for module in net.modules() if isinstance(module, nn.Conv2d)]
    count = sum(weight.numel() for weight in net.parameters())
    # 19 convolutions of 3×3 (the 20th layer is the classifier), two shortcuts, a batch norm before each of
    # the 18 inside the units and one at the end
    assert sum(conv.kernel_size == (3, 3) for conv in convolutions) == 19
    kernels = 9 * (3 * 16 + 6 * 16**2 + 16 * 32 + 5 * 32**2 + 32 * 64 + 5 * 64**2)
    norms = 2 * (6 * 16 + 16 + 5 * 32 + 32 + 5 * 64 + 64)
    assert count == kernels + (16 * 32 + 32 * 64) + norms
    with torch.no_grad():
        features = net(torch.randn(2, 3, 32, 32))
    assert features.shape == (2, 64, 8, 8)
    assert features.min() == 0


def test_a_unit_of_resnetv2_20_hands_its_input_on_as_it_is() -> None:
    net: Any = load("resnetv2_20").eval()
    x = torch.randn(2, 16, 8, 8)
    unit, widening = net.units[1], net.units[3]
    with torch.no_grad():
        for part in (unit, widening):
            part.conv2.weight.zero_()
        assert torch.equal(unit(x), x)
        active = widening.bn1(x).relu()
        torch.testing.assert_close(
            widening(x), nn.functional.conv2d(active, widening.shortcut.weight, stride=2)
        )
