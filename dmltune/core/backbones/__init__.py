"""One file a backbone: normalised images (B, 3, H, W) → feature map (B, channels, h, w).

`torchvision/<name>` and `timm/<name>` take any convolutional model of these libraries when they are
installed.
"""

from __future__ import annotations

from pathlib import Path

from torch import nn

from dmltune.core import components
from dmltune.errors import UserError


class Backbone(nn.Module):
    """`channels` of the feature map, and the `mean` and `std` that images in [0, 1] are normalised with."""

    channels: int
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)

    def load_named_weights(self, weights: str) -> None:
        """Weights that come with a package or a library ("packaged", "imagenet")."""
        raise UserError(
            f"no weights '{weights}' for this backbone; use none or the path of a .safetensors or .pt file"
        )


def load(name: str, weights: str = "none") -> Backbone:
    """The backbone `name`; weights: none | packaged | imagenet | the path of a .safetensors, .pt or .pth
    file.
    """
    from dmltune.core.backbones import _weights

    backbone: Backbone = components.build("backbones", name, {}, {})
    if Path(weights).suffix in _weights.SUFFIXES:
        _weights.load_file(backbone, Path(weights))
    elif weights in ("packaged", "imagenet"):
        backbone.load_named_weights(weights)
    elif weights != "none":
        raise UserError(
            "weights must be none, packaged, imagenet or the path of a .safetensors, .pt or .pth file; "
            f"got '{weights}'"
        )
    return backbone
