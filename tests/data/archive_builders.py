"""Archives that the tests pack, honest and evil ones."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from dmltune.data.archives import LIMITS, Limits, Progress, unpack
from dmltune.data.files import workspace
from dmltune.errors import UserError

FILES = {"birds/lists.txt": b"one two\n", "birds/images/1.jpg": os.urandom(5000), "birds/empty.txt": b""}


def extract(archive: Path, folder: Path, limits: Limits = LIMITS, progress: Progress | None = None) -> None:
    """As `prepare` does: the folder appears when it is complete."""
    with workspace(folder) as unpacked:
        unpack(archive, unpacked, limits, progress)
        unpacked.rename(folder)


KINDS = (".tar", ".tar.gz", ".tar.bz2", ".tar.xz", ".zip")


def pack(archive: Path, files: dict[str, bytes]) -> Path:
    """An honest archive of the kind that its name tells."""
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
            packed.mkdir("birds")
            for name, content in files.items():
                packed.writestr(name, content)
        return archive
    kind = archive.suffix.removeprefix(".")
    with tarfile.open(archive, f"w:{kind if kind != 'tar' else ''}") as tar:  # type: ignore[call-overload]
        tar.addfile(member("birds", kind=tarfile.DIRTYPE))
        for name, content in files.items():
            tar.addfile(member(name, len(content)), io.BytesIO(content))
    return archive


def member(name: str, size: int = 0, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = size, kind, link
    return info


def tarred(archive: Path, *infos: tarfile.TarInfo) -> Path:
    """A tar with a good file first, then `infos` with zeros in them."""
    with tarfile.open(archive, "w:gz" if archive.suffix == ".gz" else "w") as tar:
        for info in (member("good.txt", 3), *infos):
            tar.addfile(info, io.BytesIO(bytes(info.size)))
    return archive


def zipped(archive: Path, *names: str | zipfile.ZipInfo, content: bytes = b"abc") -> Path:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in ("good.txt", *names):
            packed.writestr(name, content, zipfile.ZIP_DEFLATED)
    return archive


def unix(name: str, mode: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, mode << 16
    return info


def everything(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def refusal(archive: Path, **options: Limits) -> str:
    """Why `archive` is refused; nothing may be written in its folder, nor left beside."""
    before = everything(archive.parent)
    with pytest.raises(UserError) as caught:
        extract(archive, archive.parent / "out", **options)
    assert everything(archive.parent) == before
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(archive))
    return str(caught.value)
