"""One tiny trained model of own photos, and the photos, for every test of the module."""

from __future__ import annotations

import os
import shutil
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import pytest
from data.tiny_layouts import picture
from filelock import FileLock
from support.stores import new_store

import dmltune
from dmltune.experiment import load_experiment
from dmltune.store import Store
from dmltune.tracking import Tracker

NAME = "shop"


@dataclass(frozen=True)
class Shop:
    """A store with one training, and the folder of its photos: 6 + 3 classes of 4 images."""

    store: Store
    photos: Path

    @property
    def root(self) -> str:
        return str(self.store.root)

    def run_id(self) -> str:
        run = Tracker(self.store).find(NAME)
        assert run is not None
        return str(run.info.run_id)


def photos(folder: Path, train: int = 6, test: int = 3, each: int = 4) -> Path:
    for number in range(train + test):
        half = "train" if number < train else "test"
        for index in range(each):
            picture(folder / half / f"kind {number}" / f"{index}.png", number, index)
    return folder


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent  # the processes of pytest-xdist share it
    with FileLock(base / "shop.lock"):
        if not (base / "shop" / "made").exists():
            shutil.rmtree(base / "shop", ignore_errors=True)
            _make(base / "shop")
            (base / "shop" / "made").touch()
    return Shop(Store(base / "shop" / "mlruns"), base / "shop" / "photos")


def _make(folder: Path) -> None:
    folder.mkdir()
    place = photos(folder / "photos")
    store = new_store(folder / "mlruns")
    experiment = load_experiment(
        "glyphs",
        [
            f"data={{name: own, path: {place}, size: 32}}",
            *("batch={size: 8, samples_per_class: 2}", "pooling=gsp", "pooling.prototypes=4"),
            *("optimizer={name: sgd, lr: 0.05}", "max_steps=4", "validate_every=2", "embedding.dim=16"),
        ],
    )
    *_, last = dmltune.train(experiment, name=NAME, store=store)
    assert last.finished


def png_that_claims(width: int, height: int) -> bytes:
    """A PNG with a header of this size and next to no pixels."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(b"\0" * 100)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)
