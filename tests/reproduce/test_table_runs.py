"""A table that is trained: only what is missing, killed and gone on with, shown beside the print."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.driving import Place, kill

from dmltune.ledger import Ledger
from dmltune.store import Store

TABLE = """\
source: a paper, Table 9
protocol: fair
overrides: [data.classes=24, data.size=16, batch.size=16, embedding.dim=8, "validate_every=20", max_steps=40]
data:
  G: {name: glyphs, space: glyphs}
columns:
  4 models: {score: ensemble, metric: map_at_r}
  1 model:  {score: single, metric: map_at_r}
rows:
  C2:      {theirs: {G: [46.94, 42.66]}}
  C2+XBM:  {group: C2, overrides: ["references={name: xbm, size: 64}"], theirs: {G: [49.04, 45.15]}}
  Triplet: {overrides: [loss=triplet], theirs: {G: [40.00, 35.00]}}
"""
RUN = ("reproduce", "nine.yaml", "--run", "--repeats", "1", "--folds", "2", "--concurrent", "1")


@pytest.fixture(scope="module", autouse=True)
def file(place: Place) -> None:
    (place.folder / "nine.yaml").write_text(TABLE, encoding="utf-8")


def cells(out: str) -> dict[tuple[str, str], dict[str, Any]]:
    return {(cell["row"], cell["column"]): cell for cell in json.loads(out)["cells"]}


def test_a_killed_table_goes_on_and_then_only_shows(place: Place) -> None:
    driver = place.start(*RUN, "--rows", "C2+XBM", "-f", "json")
    driver.wait_for(lambda: "C2-fold0-seed1000: done" in driver.text, "a first model")
    kill(driver.process)
    driver.finish()

    code, out, errors = place.run(*RUN, "--rows", "C2+XBM", "-f", "json")
    assert code == 0, errors
    assert "C2-fold0-seed1000" not in errors  # it is not trained again
    trained = cells(out)  # the row that was asked for
    assert trained["C2+XBM", "1 model"]["state"] == trained["C2+XBM", "4 models"]["state"] == "done"
    assert trained["C2+XBM", "1 model"]["models"] == 2
    openings = Ledger(Store.at(place.store)).entries("table-nine-G-C2")
    assert [entry.kind for entry in openings] == ["reproduce", "reproduce"]

    driver = place.start("reproduce", "nine.yaml", "-f", "json")  # without --run: nothing is opened
    code, shown = driver.finish()
    assert code == 0
    found = cells(shown)
    assert {key: found[key] for key in trained} == trained
    assert found["C2", "1 model"]["state"] == "done"  # its baseline came with it
    assert 0 < found["C2", "1 model"]["ours"] < 1
    assert found["Triplet", "1 model"]["state"] == "not run"
    assert not driver.workers()
    assert len(Ledger(Store.at(place.store)).entries()) == 2


def test_checks_of_a_table_are_rows_of_dmltune_table(place: Place) -> None:
    code, out, errors = place.run("table", "--format", "json")
    assert code == 0, errors
    document = json.loads(out)
    assert document["rows"] == ["C2", "C2+XBM"]
    assert [column["title"] for column in document["columns"]] == ["glyphs"]
    assert all(cell["run_id"] and cell["models"] == 2 for cell in document["cells"])


def test_another_setting_needs_another_name(place: Place) -> None:
    code, _, errors = place.run(*RUN, "--rows", "C2+XBM", "loss.neg_margin=0.7")
    assert code == 2
    assert "loss.neg_margin: 0.5 → 0.7" in errors
    assert "Choose another --name" in errors


def test_a_table_of_protocol_tuning_reads_no_test_class(place: Place) -> None:
    table = TABLE.replace(
        "protocol: fair", "protocol: tuning\nfolds: 1\nrepeats: 2\nsetting: {batch.size: 32}"
    )
    table = table.replace("  4 models: {score: ensemble, metric: map_at_r}\n", "")
    table = table.replace("1 model:  {score: single", "MAP@R: {score: validation")
    table = table.replace("46.94, ", "").replace("49.04, ", "").replace("40.00, ", "")
    (place.folder / "tuned.yaml").write_text(table, encoding="utf-8")
    before = len(Ledger(Store.at(place.store)).entries())
    code, out, errors = place.run("reproduce", "tuned.yaml", "--run", "--rows", "C2+XBM", "--concurrent", "1")
    assert code == 0, errors
    assert "C2 is not as printed: batch.size: 32 in print, 16 here" in errors
    assert "tuning protocol, 1 fold × 2 repeats" in " ".join(out.split())
    assert "ours, 2 models" in out
    assert len(Ledger(Store.at(place.store)).entries()) == before
    folder = place.store / "searches" / "table-tuned-G-C2"
    document = json.loads((folder / "check.json").read_text())
    assert document["validation_only"]
    assert not document["openings"]
    assert not list(folder.rglob("test.safetensors"))
    xbm = document["configurations"][1]
    validations = [model["validation"] for model in xbm["models"]]
    assert xbm["single"]["map_at_r"]["mean"] == pytest.approx(sum(validations) / 2)
    gaps = [
        ours["validation"] - base["validation"]
        for ours, base in zip(xbm["models"], document["configurations"][0]["models"], strict=True)
    ]
    assert xbm["versus_baseline"]["difference"] == pytest.approx(sum(gaps) / 2)
    page = (folder / "report.html").read_text()
    assert "no test class was read" in page
    assert "Openings of the test classes" not in page
    assert "intervals cover other seeds only" in page
    code, out, errors = place.run("table", "table-tuned-G-C2")
    assert code == 0, errors
    assert "validation classes" in " ".join(out.split())
