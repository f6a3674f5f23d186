"""A working directory of its own for every test, with a folder of search spaces in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dmltune.errors import UserError
from dmltune.experiment import load_experiment

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """`write("mine", text)` makes search_spaces/mine.yaml in the working directory."""
    monkeypatch.chdir(tmp_path)

    def make(name: str, text: str, folder: str = "search_spaces") -> Path:
        file = tmp_path / folder / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    return make


@pytest.fixture
def message(write: Write) -> Callable[..., str]:
    """The one line that loading search_spaces/mine.yaml with this content ends with."""

    def message_of(text: str, *overrides: str) -> str:
        write("mine", text)
        with pytest.raises(UserError) as caught:
            load_experiment("mine", overrides)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 400
        return str(caught.value)

    return message_of
