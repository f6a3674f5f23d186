"""One file a backbone: normalised images (B, 3, H, W) → feature map (B, channels, h, w).

`torchvision/<name>` and `timm/<name>` take any model of these libraries, if installed, that is convolutional
or cuts images into patches (a ViT: its patch tokens are the feature map).
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from dmltune.core import components
from dmltune.errors import UserError

_WRAPPERS = ("module.", "backbone.", "net.")


class Backbone(nn.Module):
    """`channels` of the feature map; `mean` and `std` for the normalisation of images in [0, 1]."""

    channels: int
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)

    def load_tensors(self, tensors: dict[str, Tensor], source: str) -> None:
        """Load the tensors of a weights file, by the names in files of this backbone."""
        load_tensors(self, tensors, source)

    def load_named_weights(self, weights: str) -> None:
        """Load weights of a package or a library ("packaged", "imagenet")."""
        raise UserError(
            f"no weights '{weights}' for this backbone; use none or the path of a .safetensors or .pt file"
        )


def load(name: str, weights: str = "none") -> Backbone:
    """Return a backbone; weights: none | packaged | imagenet | a .safetensors, .pt or .pth file."""
    backbone: Backbone = components.build_module("backbones", name, {}, {})
    if Path(weights).suffix in (".safetensors", ".pt", ".pth"):
        backbone.load_tensors(_read(Path(weights)), weights)
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


def _read(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise UserError(f"no weights at {path}; give the path of a .safetensors, .pt or .pth file")
    try:
        if path.suffix == ".safetensors":
            return safetensors.torch.load_file(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (safetensors.SafetensorError, pickle.UnpicklingError, RuntimeError, EOFError, OSError) as problem:
        reason = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        raise UserError(
            f"weights {path} cannot be read: {reason}; save a plain state_dict or safetensors"
        ) from None
    content = content.get("state_dict", content) if isinstance(content, dict) else content
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise UserError(f"weights {path} hold no state_dict; save module.state_dict() or safetensors")
    return content


def fetched(source: str, fetch: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
    """Return the tensors that a library downloads, or raise a UserError of one line."""
    try:
        return fetch()
    except Exception as problem:  # no net, no room, no weights: the libraries raise many kinds
        reason = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        raise UserError(f"weights {source} cannot be fetched: {reason}; give a path") from None
