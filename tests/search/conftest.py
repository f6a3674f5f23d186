"""A folder with a store of its own for the tests of a module."""

from __future__ import annotations

import pytest
from support.driving import Place


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("place"))
