"""Published files of pretrained weights, and how a file is read. dmltune/weights fetches them."""

from __future__ import annotations

import importlib.util
import pickle
import re
from dataclasses import dataclass
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from dmltune.errors import UserError

SUFFIXES = (".safetensors", ".pt", ".pth")
NAMED = ("packaged", "imagenet", "imagenet_v1", "imagenet_v2")  # the versions are torchvision's
_DIGITS = re.compile(r"-([0-9a-f]{8,64})\.[a-z]+$")


@dataclass(frozen=True)
class WeightsSource:
    """A published file of weights; `file` is its name on this machine.

    It comes from `url`, from the repository `hub` of the Hugging Face hub as `hub_file`, or with the
    installed module `package`. `sha256` has all or the first of the digits, `size` is in bytes and rounded.
    """

    file: str
    url: str = ""
    sha256: str = ""
    size: int | None = None
    hub: str = ""
    hub_file: str = ""
    package: str = ""

    @classmethod
    def of_url(cls, url: str, size: int | None = None) -> WeightsSource:
        """Return the source of a file whose name ends in the first digits of its checksum."""
        file = url.rpartition("/")[2]
        digits = _DIGITS.search(file)
        return cls(file, url, digits[1] if digits else "", size)

    def packaged_file(self) -> Path | None:
        """Return the file of the installed package; None when it is not installed, or another source."""
        spec = importlib.util.find_spec(self.package) if self.package else None
        if spec is None or not spec.submodule_search_locations:
            return None
        path = Path(spec.submodule_search_locations[0]) / "models" / self.file
        return path if path.is_file() else None


def read(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a state_dict or safetensors file. No object is unpickled."""
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
