"""A folder with a store of its own for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.driving import Place


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    place = Place(tmp_path_factory.mktemp("place"))
    yield place
    place.clean_up()
