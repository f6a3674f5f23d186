"""Archives of tiny data sets, and releases that lie on a local server."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest
from data import tiny_layouts

from dmltune.data.obtain import RELEASES, File, Release
from dmltune.data.prepare import prepare
from dmltune.errors import UserError


def packed(name: str, folder: Path, archive: str = "mine", kind: str = "zip", per_class: int = 2) -> Path:
    """An archive of a tiny copy of data set `name`, in which the official folder lies."""
    with_set = folder / "source" / archive
    tiny_layouts.write(name, with_set, 3, per_class)
    return Path(shutil.make_archive(str(folder / archive), kind, with_set))


def refusal(name: str, root: Path, archive: Path | None = None) -> str:
    before = sorted(root.rglob("*")) if root.is_dir() else []
    with pytest.raises(UserError) as caught:
        prepare(name, root, archive)
    assert "\n" not in str(caught.value)
    assert (sorted(root.rglob("*")) if root.is_dir() else []) == before
    return str(caught.value)


def digest(file: Path) -> str:
    return "sha256:" + hashlib.sha256(file.read_bytes()).hexdigest()


def publish(monkeypatch: pytest.MonkeyPatch, name: str, *files: File) -> None:
    monkeypatch.setitem(RELEASES, name, (Release("https://data.example/", files),))
