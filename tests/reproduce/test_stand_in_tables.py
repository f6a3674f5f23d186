"""Every table of the papers on its stand-in: its rows resolve, and its first one runs at tiny size."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.stores import new_store

from dmltune.cli import main
from dmltune.reproduce.paper_tables import experiment_of, load_table, load_trainings, table_names
from dmltune.reproduce.stand_in_tables import LABEL, SMALL, on_stand_in
from dmltune.reproduce.table_studies import FACTS


def trained_rows(name: str) -> list[str]:
    """The rows of a table that can be trained and are compared with no other row."""
    source = load_trainings(load_table(name))
    rows = {row: each.as_ or row for row, each in load_table(name).rows.items()}
    own = {row: trained for row, trained in rows.items() if not source.why_not(trained)}
    return [row for row, trained in own.items() if source.baseline(trained) == trained]


TRAINED = [name for name in table_names() if trained_rows(name) and load_table(name).protocol != FACTS]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_store(tmp_path_factory.mktemp("tables")).root


@pytest.mark.parametrize("name", TRAINED)
def test_a_table_runs_at_tiny_size(name: str, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = trained_rows(name)[0]
    words = ["reproduce", name, "--run", "--tiny", "--rows", row, "--store", str(store)]
    assert main([*words, "-f", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["failed"], document["refused"], document["stopped"]) == ({}, {}, False)
    cells = [cell for cell in document["cells"] if cell["row"] == row]
    assert cells
    assert any(cell["ours"] is not None and cell["models"] == 1 for cell in cells)
    assert all(cell["theirs"] is None and cell["data"] == LABEL for cell in cells)


@pytest.mark.parametrize("name", TRAINED)
def test_a_stand_in_keeps_the_methods_of_the_rows(name: str) -> None:
    source = load_trainings(load_table(name))
    stand_in = on_stand_in(source)
    for row, printed in list(source.rows.items())[::3]:
        if source.why_not(row):
            continue
        data = next(iter(printed.theirs))
        theirs, ours = experiment_of(source, row, data), experiment_of(stand_in, row, LABEL)
        assert (ours.data.name, ours.backbone.weights) == ("glyphs", "none")
        for part in ("loss", "pooling", "references", "transform"):
            assert ours.get(f"{part}.name") == theirs.get(f"{part}.name"), (row, part)
        assert ours.zero_shot.weight == theirs.zero_shot.weight
        assert ours.max_steps == int(dict(text.split("=", 1) for text in SMALL)["max_steps"])
