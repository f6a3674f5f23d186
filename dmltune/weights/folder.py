"""The places on this machine that may have a file of weights, and its verification.

Fetched files are in the folder `weights` of the cache, one for all trials, searches and projects. A file that
torch, the Hugging Face hub or an administrator (the folder `weights` of the data root) has put on the disk is
used from where it is.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.metadata
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dmltune.core.backbones import WeightsSource
from dmltune.data.cache import cache_folder
from dmltune.data.download import verify_file
from dmltune.data.files import regular_stat, user_errors
from dmltune.errors import UserError

HUB_FOLDER = "hub"


@dataclass(frozen=True)
class WeightsFile:
    """A file on this machine; `origin` is where it was found: cache, data, torch, hub or package."""

    path: Path
    origin: str


def weights_folder() -> Path:
    """Return the folder of fetched files, which all processes of the machine share."""
    return cache_folder() / "weights"


def find(source: WeightsSource, data_root: str | None = None) -> WeightsFile | None:
    """Return the first file of this source; one of another program is verified before it is used."""
    for copy in places(source, data_root):
        try:
            status = regular_stat(copy.path)
        except OSError:
            continue
        if copy.origin not in ("cache", "package"):
            _verify_once(source, copy, status.st_size, status.st_mtime_ns)
        return copy
    return None


def places(source: WeightsSource, data_root: str | None = None) -> Iterator[WeightsFile]:
    """Yield where the file may be, the best place first."""
    if source.package:
        if packaged := source.packaged_file():
            yield WeightsFile(packaged, "package")
        return
    yield WeightsFile(weights_folder() / source.file, "cache")
    if root := data_root or os.environ.get("DMLTUNE_DATA"):
        yield WeightsFile(Path(root).expanduser() / "weights" / source.file, "data")
    if source.hub:
        for folder in (weights_folder() / HUB_FOLDER, None):
            if path := _in_hub_cache(source, folder):
                yield WeightsFile(path, "hub")
    else:
        yield WeightsFile(_torch_folder() / source.file, "torch")


def verify(source: WeightsSource, copy: WeightsFile) -> str:
    """Return what the file was compared with; a UserError when it is damaged or another one."""
    checksum = f"sha256:{source.sha256}" if source.sha256 else ""
    compared = "its name" if source.sha256 else "nothing: no checksum is published"
    if copy.origin == "package":
        checksum, compared = _package_checksum(source, copy.path) or checksum, "the package"
    elif source.hub and re.fullmatch("[0-9a-f]{64}", copy.path.resolve().name):
        checksum, compared = f"sha256:{copy.path.resolve().name}", "the hub"
    elif len(source.sha256) == 64:
        compared = "the published checksum"
    verify_file(copy.path, checksum)
    return compared


@functools.lru_cache(maxsize=256)
def _verify_once(source: WeightsSource, copy: WeightsFile, size: int, changed: int) -> None:
    try:
        verify(source, copy)
    except UserError as error:
        raise UserError(f"{error} Delete or replace {copy.path}.") from None


def _package_checksum(source: WeightsSource, path: Path) -> str:
    """Return the checksum that pip recorded when it installed the file."""
    names = importlib.metadata.packages_distributions().get(source.package, [])
    for name in names:
        for file in importlib.metadata.files(name) or ():
            if file.hash and file.name == path.name and file.hash.mode == "sha256":
                return f"sha256:{base64.urlsafe_b64decode(file.hash.value + '=').hex()}"
    return ""


def _in_hub_cache(source: WeightsSource, folder: Path | None) -> Path | None:
    """Return the file in a cache of the hub (None: that of all programs) without asking the network."""
    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError:
        return None
    path = try_to_load_from_cache(source.hub, source.hub_file, cache_dir=folder)
    return Path(path) if isinstance(path, str) else None


def _torch_folder() -> Path:
    """Return where torch.hub puts what it downloads."""
    import torch.hub

    return Path(torch.hub.get_dir()) / "checkpoints"


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with user_errors(f"{path} cannot be read"), path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
