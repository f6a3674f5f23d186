"""`dmltune table` and the tables of `dmltune reproduce`, from a store that has checks."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from support.checked_documents import checked, configuration, grid

from dmltune.cli import main
from dmltune.store import Store
from dmltune.tracking import Tracker

SPREAD = (0.0, 0.004, -0.003)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two checks with figures, one that was stopped before it had any, and a search."""
    store = Store.at(tmp_path_factory.mktemp("runs"))
    tracker = Tracker(store)
    versus = {"difference": 0.05, "low": 0.04, "high": 0.06, "p": 1e-4, "p_holm": 1e-4}
    versus |= {"effect_size": 1.0, "wins": 1.0, "fold_sd": 0.0, "seed_sd": 0.0, "class_sd": 0.0}
    versus |= {"models": 12, "classes": 8}
    birds = checked(
        "birds-check",
        configuration("winner", grid(0.30, SPREAD), ["winner"]),
        configuration("baseline", grid(0.22, SPREAD), ["baseline"]),
        search="birds",
    )
    paper = checked(
        "table-3.1-CUB-C2",
        configuration("C2", grid(0.20, SPREAD), ["C2"], {"loss": "contrastive", "patience": 60}),
        configuration(
            "C2-CCP-L",
            grid(0.25, SPREAD),
            ["C2+CCP-L"],
            {"loss": "contrastive", "references": "ccp", "patience": 60, "max_steps": 200},
            versus_baseline=versus,
        ),
        space_name="cub",
    )
    for check in (birds, paper):
        run_id = open_run(tracker, check.name, "check", check.document.search)
        tracker.log_json(run_id, "check.json", check.document.to_dict())
        tracker.close_run(run_id, "complete")
    open_run(tracker, "stopped-check", "check", "stopped")
    open_run(tracker, "birds", "search", "")
    return store.root


def open_run(tracker: Tracker, name: str, role: str, of: str) -> str:
    key = {"dmltune.search": name, "dmltune.number": "parent"}
    tags = {"dmltune.role": role, "dmltune.checked": of}
    return tracker.begin_run(tracker.experiment("cub-ccp"), name, key, {}, tags)[0]


def run_here(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(list(words))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_all_checks_of_the_store_are_one_table(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run_here(capsys, "table", "--store", str(store))
    assert code == 0
    for row in ("ccp winner", "ccp baseline", "C2 ", "C2+CCP-L"):
        assert row in out
    assert "30.03 ±" in out
    assert "**" in out
    assert max(map(len, out.splitlines())) <= 80


def test_named_checks_alone_by_their_name_or_that_of_their_search(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("birds", "birds-check"):
        _, out, _ = run_here(capsys, "table", name, "--store", str(store), "-f", "json")
        assert {cell["study"] for cell in json.loads(out)["cells"]} == {"birds-check"}
    code, _, errors = run_here(capsys, "table", "brids-check", "--store", str(store))
    assert (code, errors) == (2, "no check 'brids-check' in this store; did you mean 'birds-check'?\n")


def test_every_line_of_the_csv_names_the_run_the_commit_and_the_data(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "checks.csv"
    code, out, _ = run_here(capsys, "table", "--store", str(store), "--format", "csv", "--out", str(file))
    assert (code, out.strip()) == (0, str(file))
    with open(file, newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 4
    runs = {one: Tracker(Store.at(store)).find(one) for one in ("birds-check", "table-3.1-CUB-C2")}
    for row in rows:
        run = runs[row["study"]]
        assert run is not None
        assert row["run_id"] == run.info.run_id
        assert (row["commit"], row["fingerprint"]) == ("e0934e0c2d7a", "9f1c2e77a0b4d311")


@pytest.mark.parametrize(("form", "needed"), [("markdown", "| **30.03 ±"), ("latex", r"\textbf{30.03 $\pm$")])
def test_papers_and_readmes_get_their_own_formats(
    form: str, needed: str, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = run_here(capsys, "table", "birds", "--store", str(store), "--format", form, "--ensemble")
    assert needed in out
    assert "joined" in out


def test_a_store_without_checks_says_what_makes_one_and_makes_no_database(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, errors = run_here(capsys, "table", "--store", str(tmp_path / "new"))
    assert (code, errors.count("\n")) == (2, 1)
    assert "Make one with: dmltune check SEARCH" in errors
    assert not list((tmp_path / "new").glob("*.db"))


def test_mistakes_are_one_line(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, expected in (
        (("table", "--metric", "map"), "no metric 'map' in these checks"),
        (("table", "--out", str(tmp_path / "no" / "file")), "--out must be a file that can be written"),
        (("reproduce", "3.11"), "no figure or table '3.11'; did you mean '3.1'?"),
        (("reproduce", "synthetic", "--rows", "C2"), "no row 'C2' in this figure"),
        (("reproduce", "synthetic", "--folds", "2"), "--folds is for tables; for a figure leave it out"),
        (("reproduce", "synthetic", "max_steps=9"), "synthetic reads no data"),
        (("reproduce", "3.1", "--seeds", "3"), "--seeds is for figures; for a table leave it out"),
        (("reproduce", "3.1", "max_steps=3"), "max_steps=3 is for trainings; add --run"),
        (("reproduce", "3.1", "--rows", "C3"), "no row 'C3' in this table"),
        (("reproduce", "3.1", "--run", "--data", "CUB", "max_stepz=3"), "unknown key 'max_stepz'"),
    ):
        code, _, errors = run_here(capsys, *words, "--store", str(store))
        assert (code, errors.count("\n")) == (2, 1), words
        assert expected in errors


def test_a_papers_table_shows_what_was_run_and_with_which_changes(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--store", str(store), "--data-root", str(tmp_path))
    code, out, _ = run_here(capsys, "reproduce", "3.1", "--data", "CUB", *where)
    assert code == 0
    text = " ".join(out.split())
    assert "C2+CCP-L 69.73 28.02 62.39 22.67 ours, 12 models" in text
    assert (
        "C2+CCP-L over C2, MAP@R, points: theirs +1.66, ours +5.00 (95 % CI +4.00 to +6.00, p < 0.001)"
        in text
    )
    assert "not the table's settings: max_steps=200" in text
    assert "8 of 52 printed figures have ours beside them" in text
    assert max(map(len, out.splitlines())) <= 80
    _, out, _ = run_here(capsys, "reproduce", "3.1", "--data", "CUB", *where, "-f", "json")
    cells = {(cell["row"], cell["column"]): cell for cell in json.loads(out)["cells"]}
    assert cells["C2", "128D MAP@R"]["theirs"] == 0.2101
    assert cells["C2", "128D MAP@R"]["ours"] == pytest.approx(0.2003, abs=1e-4)
    assert cells["MS", "128D MAP@R"]["state"] == "data missing"


@pytest.mark.parametrize("name", ["3.2", "3.3", "5.1", "5.4", "sft1", "sft2", "ms1", "ms3"])
def test_every_table_can_be_shown_without_any_data(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, errors = run_here(
        capsys, "reproduce", name, "--store", str(tmp_path / "s"), "--data-root", str(tmp_path)
    )
    assert (code, errors) == (0, "")
    assert "0 of" in out
    assert max(map(len, out.splitlines())) <= 80
    assert not list((tmp_path / "s").glob("*.db"))
