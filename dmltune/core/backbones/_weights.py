"""Weights from a file into a backbone."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from dmltune.errors import UserError

SUFFIXES = (".safetensors", ".pt", ".pth")
_WRAPPERS = ("module.", "backbone.", "net.")


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
        expected = ", ".join(_line(name, own[name]) for name in bad[:3])
        available = ", ".join(_line(name, value) for name, value in list(tensors.items())[:3])
        raise UserError(
            f"weights {source} do not fit this backbone: {len(bad)} of {len(wanted)} tensors are missing "
            f"or have another shape, first {expected}; the file starts with {available}"
        )
    module.load_state_dict({name: tensors[name] for name in own if name in tensors}, strict=False)


def read(path: Path) -> dict[str, Tensor]:
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


def _line(name: str, value: Tensor) -> str:
    return f"{name} {tuple(value.shape)}"
