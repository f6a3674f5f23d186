"""One file a backbone: normalised images (B, 3, H, W) → feature map (B, channels, h, w).

`torchvision/<name>` and `timm/<name>` take any model of these libraries, if installed, that is convolutional
or cuts images into patches (a ViT: its patch tokens are the feature map).
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from dmltune.core import components
from dmltune.core.backbones._weights import NAMED as NAMED
from dmltune.core.backbones._weights import SUFFIXES, read
from dmltune.core.backbones._weights import WeightsSource as WeightsSource
from dmltune.errors import UserError

FROM_SPACE = "space:"  # and a name: the backbone of a training of that space (train/pretraining.py)
_WRAPPERS = ("module.", "backbone.", "net.")


class UnknownModelError(UserError):
    """A library has no model with this name."""


class Backbone(nn.Module):
    """`channels` of the feature map; `mean` and `std` for the normalisation of images in [0, 1]."""

    channels: int
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)

    def load_tensors(self, tensors: dict[str, Tensor], source: str) -> None:
        """Load the tensors of a weights file, by the names in files of this backbone."""
        load_tensors(self, tensors, source)

    def load_named_weights(self, weights: str, file: Path) -> None:
        """Load the file of `weights_source`."""
        self.load_tensors(read(file), str(file))

    @classmethod
    def weights_source(cls, weights: str, model: str) -> WeightsSource:
        """Return where named weights ("packaged", "imagenet") are published; a UserError when nowhere."""
        raise UserError(
            f"no weights '{weights}' for this backbone; use none or the path of a .safetensors or .pt file"
        )


def weights_source(name: str, weights: str) -> WeightsSource | None:
    """Return where the weights of this backbone are published; None for none, a path or a space's."""
    if weights == "none" or Path(weights).suffix in SUFFIXES or weights.startswith(FROM_SPACE):
        return None
    if weights not in NAMED:
        raise UserError(
            f"weights must be none, {', '.join(NAMED)}, {FROM_SPACE}NAME or the path of a .safetensors, .pt "
            "or .pth file; "
            f"got '{weights}'"
        )
    backbone: type[Backbone] = components.find("backbones", name)
    return backbone.weights_source(weights, name.partition("/")[2])


def load(name: str, weights: str = "none", file: Path | None = None) -> Backbone:
    """Return a backbone; weights: none | packaged | imagenet… | a .safetensors, .pt or .pth file.

    `file` has the named weights where they do not come with an installed package.
    """
    source = weights_source(name, weights)
    backbone: Backbone = components.build_module("backbones", name, {}, {})
    if source is None:
        if weights != "none":
            backbone.load_tensors(read(Path(weights)), weights)
        return backbone
    file = file or source.packaged_file()
    if file is None:
        raise UserError(
            f"weights {weights} of {name} ({source.file}) are not here; dmltune weights fetch {name}, "
            "or set backbone.weights to the path of the file"
        )
    backbone.load_named_weights(weights, file)
    return backbone


@torch.no_grad()
def require_size(backbone: Backbone, name: str, side: int) -> None:
    """Raise a UserError if the backbone takes no square images of `side` pixels."""
    was_training = backbone.training
    try:
        count = backbone.eval()(torch.zeros(1, 3, side, side, dtype=torch.float32)).numel()
    except (AssertionError, RuntimeError, ValueError) as problem:
        reason = " ".join(str(problem).split()) or type(problem).__name__
        raise UserError(
            f"backbone {name} takes no images of {side}×{side} pixels ({reason[:200]}); "
            "choose another data.size or backbone"
        ) from None
    finally:
        backbone.train(was_training)
    if not count:
        raise UserError(f"images of {side}×{side} pixels leave backbone {name} no map; raise data.size")


def load_tensors(module: nn.Module, tensors: dict[str, Tensor], source: str) -> None:
    """Load tensors by name; others (a classifier) are ignored, missing or misshapen ones are errors."""
    for wrapper in _WRAPPERS:
        inside = {name[len(wrapper) :]: value for name, value in tensors.items() if name.startswith(wrapper)}
        tensors = inside or tensors
    own = module.state_dict()
    wanted = {name: value for name, value in own.items() if not name.endswith("num_batches_tracked")}
    bad = [
        name for name, value in wanted.items() if name not in tensors or tensors[name].shape != value.shape
    ]
    if bad:
        expected = ", ".join(f"{name} {tuple(own[name].shape)}" for name in bad[:3])
        available = ", ".join(f"{name} {tuple(tensors[name].shape)}" for name in list(tensors)[:3])
        raise UserError(
            f"weights {source} do not fit this backbone: {len(bad)} of {len(wanted)} tensors are missing "
            f"or have another shape, first {expected}; the file starts with {available}"
        )
    module.load_state_dict({name: tensors[name] for name in own if name in tensors}, strict=False)
