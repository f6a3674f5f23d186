"""Weights of BN-Inception that a server on 127.0.0.1 has, and an empty machine that asks it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from data.loopback import Site, serve

from dmltune.core import backbones
from dmltune.core.backbones import bn_inception

NETWORK = ("http_proxy", "https_proxy", "all_proxy", "DMLTUNE_OFFLINE", "HF_HUB_OFFLINE", "DMLTUNE_DATA")


@dataclass
class Published:
    """The file on the server; `folder` is where this machine keeps fetched files."""

    site: Site
    content: bytes
    folder: Path
    file: str = bn_inception.WEIGHTS.file

    @property
    def path(self) -> Path:
        return self.folder / self.file


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file as the well-known one is: batch norms of shape (1, C), and a classifier."""
    tensors = {
        name: value.unsqueeze(0) if "_bn." in name and value.dim() else value
        for name, value in backbones.load("bn_inception").state_dict().items()
        if not name.endswith("num_batches_tracked")
    }
    path = tmp_path_factory.mktemp("published") / "weights.pth"
    torch.save(tensors | {"last_linear.bias": torch.zeros(1000)}, path)
    return path.read_bytes()


@pytest.fixture
def published(content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Published]:
    for name in NETWORK:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("DMLTUNE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    digest = hashlib.sha256(content).hexdigest()
    monkeypatch.setattr(bn_inception, "WEIGHTS", replace(bn_inception.WEIGHTS, sha256=digest))
    with serve(content=content) as site:
        monkeypatch.setenv("DMLTUNE_WEIGHTS_MIRROR", site.url.rpartition("/")[0])
        yield Published(site, content, tmp_path / "cache" / "weights")
