"""Every figure found by its name, run at tiny size in this process, as its command runs it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from support.stores import new_store

from dmltune.cli import main, parser_of
from dmltune.reproduce import figures
from dmltune.reproduce.paper_tables import table_names
from dmltune.reproduce.study_run import StudyOptions, planned_cells
from dmltune.resources import Locations
from dmltune.store import Store

NAMES = sorted(figures.names())


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_store(tmp_path_factory.mktemp("figures")).root


@pytest.fixture(autouse=True)
def _only_data_that_come_along(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DMLTUNE_DATA", raising=False)


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_runs_and_answers(name: str, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", name, "--tiny", "--name", name, "--store", str(store)]) == 0
    shown = capsys.readouterr().out
    folder = store / "searches" / name
    document = json.loads((folder / f"{name}.json").read_text())
    assert document["source"]
    assert document["tables"]
    assert all(table["rows"] for table in document["tables"])
    for picture in document["pictures"]:
        assert Path(picture).read_bytes().startswith(b"\x89PNG")
    assert (document["failed"], document["stopped"]) == ({}, False)
    assert document["source"] in shown
    assert max(map(len, shown.replace(str(store), "").splitlines())) <= 80


def test_the_list_has_every_table_and_figure_with_a_command_that_parses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--data-root", str(tmp_path))
    assert main(["reproduce", "--list", *where, "-f", "json"]) == 0
    entries = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert set(entries) == {*figures.names(), *table_names()}
    for name, entry in entries.items():
        args = parser_of("reproduce").parse(shlex.split(entry["command"])[2:])
        assert args.study == name
        assert entry["needs_no_data"] == (not entry["needs"])
        if entry["kind"] == "figure" and entry["needs"]:
            assert entry["at_hand"], f"{name} runs on nothing that everybody has"
    assert entries["fig3.5"]["at_hand"] == ["glyphs"]
    assert entries["fig3.5"]["stand_in"]
    assert set(entries["fig3.5"]["missing"]) == {"cub", "cars", "birds"}
    assert entries["3.1"]["command"] == "dmltune reproduce 3.1 --run --data glyphs"
    assert entries["3.1"]["stand_in"]
    assert entries["ms1"]["command"] == "dmltune reproduce ms1"
    assert main(["reproduce", "--list", *where]) == 0
    assert max(map(len, capsys.readouterr().out.replace(str(tmp_path), "").splitlines())) <= 80


def test_data_that_are_missing_are_named_with_a_command_that_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["reproduce", "fig3.8", "--data", "birds", "--data-root", str(tmp_path), "--store", str(tmp_path)]
    assert main(words) == 2
    assert "dmltune reproduce fig3.8 --data glyphs" in capsys.readouterr().err
    assert main(["reproduce", "fig3.8", "--data", "bird", "--store", str(tmp_path)]) == 2
    assert "no data 'bird' in fig3.8; did you mean 'birds'?" in capsys.readouterr().err


def test_the_plan_of_a_figure_starts_nothing(store: Path) -> None:
    locations = Locations(Store.at(store))
    _, cells = planned_cells("fig3.8", StudyOptions(name="planned", seeds=2), locations)
    assert len(cells) == 2 * 2 * 4
    sizes = {cell.batch.size for cell in cells.values()}
    assert sizes == {16, 32, 64, 128}
    assert {cell.seed for cell in cells.values()} == {0, 1}
    assert planned_cells("synthetic", StudyOptions(tiny=True), locations)[1] == {}
