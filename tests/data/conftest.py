"""A cache of its own for the session, glyphs from it, the birds when they are there, a set in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from dmltune.data import catalog
from dmltune.data.images import ImageSet, Ints, Part, Pixels


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DMLTUNE_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session")
def glyphs(cache: Path) -> dict[Part, ImageSet]:
    return {"train": catalog.load("glyphs", "train"), "test": catalog.load("glyphs", "test")}


@pytest.fixture(scope="session")
def data_root() -> Path:
    """Where the birds are; the tests that need them are skipped without."""
    beside = Path(__file__).parents[3] / "shared" / "data"
    root = Path(os.environ.get("DMLTUNE_DATA") or beside)
    if not (root / "CUB_200_2011").is_dir():
        pytest.skip(f"no CUB_200_2011 in {root}: set DMLTUNE_DATA")
    return root


@pytest.fixture
def make_set() -> Callable[..., ImageSet]:
    def make(per_class: list[int], side: tuple[int, int] = (12, 16), channels: int = 3) -> ImageSet:
        labels_N = np.repeat(np.arange(len(per_class)), per_class)
        rng = np.random.default_rng(0)
        pictures = [rng.integers(0, 256, (*side, channels), dtype=np.uint8) for _ in labels_N]

        def read(indices: Ints, side: int | None) -> list[Pixels]:
            return [pictures[index] for index in indices]

        names = tuple(f"class {label}" for label in range(len(per_class)))
        return ImageSet("memory", "train", labels_N, names, "0" * 16, read)

    return make
