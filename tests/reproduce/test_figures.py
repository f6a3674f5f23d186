"""Every figure found by its name, run at tiny size in this process, as its command runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.stores import new_store

from dmltune.cli import main
from dmltune.reproduce import figures

NAMES = sorted(figures.names())


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_store(tmp_path_factory.mktemp("figures")).root


@pytest.fixture(autouse=True)
def _only_data_that_come_along(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DMLTUNE_DATA", raising=False)


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_runs_and_answers(name: str, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["reproduce", name, "--tiny", "--store", str(store)]
    assert main([*words, "-f", "json"]) == 0
    first = capsys.readouterr()
    document = json.loads(first.out)
    assert document["source"]
    assert document["tables"]
    assert all(table["rows"] for table in document["tables"])
    for picture in document["pictures"]:
        assert Path(picture).read_bytes().startswith(b"\x89PNG")
    assert (document["failed"], document["stopped"]) == ({}, False)

    assert main(words) == 0  # nothing is trained again
    shown = capsys.readouterr()
    assert "trainings to do" not in shown.err
    assert document["about"].split(maxsplit=1)[0] in shown.out
    assert max(map(len, shown.out.replace(str(store), "").splitlines())) <= 80
