"""One file a backbone: normalised images (B, 3, H, W) → feature map (B, channels, h, w).

`torchvision/<name>` and `timm/<name>` take any model of these libraries, if installed, that is convolutional
or cuts images into patches (a ViT: its patch tokens are the feature map).
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from dmltune.core import components
from dmltune.errors import UserError


class Backbone(nn.Module):
    """`channels` of the feature map; `mean` and `std` for the normalisation of images in [0, 1]."""

    channels: int
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)

    def load_tensors(self, tensors: dict[str, Tensor], source: str) -> None:
        """Load the tensors of a weights file, by the names in files of this backbone."""
        from dmltune.core.backbones import _weights

        _weights.load_tensors(self, tensors, source)

    def load_named_weights(self, weights: str) -> None:
        """Load weights of a package or a library ("packaged", "imagenet")."""
        raise UserError(
            f"no weights '{weights}' for this backbone; use none or the path of a .safetensors or .pt file"
        )


def load(name: str, weights: str = "none") -> Backbone:
    """Return a backbone; weights: none | packaged | imagenet | a .safetensors, .pt or .pth file."""
    from dmltune.core.backbones import _weights

    backbone: Backbone = components.build_module("backbones", name, {}, {})
    if Path(weights).suffix in _weights.SUFFIXES:
        backbone.load_tensors(_weights.read(Path(weights)), weights)
    elif weights in ("packaged", "imagenet"):
        backbone.load_named_weights(weights)
    elif weights != "none":
        raise UserError(
            "weights must be none, packaged, imagenet or the path of a .safetensors, .pt or .pth file; "
            f"got '{weights}'"
        )
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
