"""Everything that resuming needs in safetensors + JSON, never pickle.

A checkpoint is one file, replaced atomically: killed at any moment, it leaves the old one or the new one.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from dmltune.errors import UserError

CHECKPOINT = "checkpoint.safetensors"
MODEL = "model.safetensors"
DESCRIPTION = "model.json"
_META = "meta"


def save(folder: Path, tensors: dict[str, Tensor], meta: dict[str, Any]) -> None:
    """Tensors and JSON-able `meta` into `folder` (made when missing), in place of what it held."""
    replace_file(folder / CHECKPOINT, safetensors.torch.save(_plain(tensors), {_META: json.dumps(meta)}))


def load(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `save` wrote, on the CPU; a UserError when it is missing or damaged."""
    return _read(folder / CHECKPOINT)


def save_model(folder: Path, embedder_state: dict[str, Tensor], description: dict[str, Any]) -> None:
    """An embedder to serve or evaluate; `model.json` repeats the description for people to read."""
    text = json.dumps(description)
    replace_file(folder / DESCRIPTION, (json.dumps(description, indent=2) + "\n").encode())
    replace_file(folder / MODEL, safetensors.torch.save(_plain(embedder_state), {_META: text}))


def load_model(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """(embedder state, description) as `save_model` got them."""
    return _read(folder / MODEL)


def _plain(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous CPU tensors that share no storage, as the format wants them."""
    seen: set[int] = set()
    plain = {}
    for name, tensor in tensors.items():
        value = tensor.detach().cpu().contiguous()
        if value.numel() and value.untyped_storage().data_ptr() in seen:
            value = value.clone()
        seen.add(value.untyped_storage().data_ptr())
        plain[name] = value
    return plain


def replace_file(path: Path, content: bytes) -> None:
    """All or nothing: a kill at any moment leaves the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for left_over in path.parent.glob(f".{path.name}.*"):  # of a process that was killed here
        left_over.unlink(missing_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    try:
        with safetensors.safe_open(path, framework="pt", device="cpu") as file:
            meta = json.loads(file.metadata()[_META])
            names: list[str] = list(file.keys())
            return {name: file.get_tensor(name) for name in names}, meta
    except FileNotFoundError:
        raise UserError(
            f"no checkpoint at {path}; look for the folder of another trial or start again"
        ) from None
    except (safetensors.SafetensorError, OSError, KeyError, TypeError, ValueError) as problem:
        raise UserError(f"checkpoint {path} is damaged ({problem}); remove it to start again") from None
