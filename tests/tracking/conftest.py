"""One finished search for all tests of the room, copied as users copy a store; its original is elsewhere."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.finished_search import finished_search


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    original = Path(finished_search(tmp_path_factory).store)
    return Path(shutil.copytree(original, tmp_path_factory.mktemp("copied") / "mlruns"))
