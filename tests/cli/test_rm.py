"""`dmltune rm`: nothing of the search is left, and all else is."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
import sys
from collections import Counter
from io import StringIO
from pathlib import Path

import pytest
from optuna.trial import TrialState
from support.stored_searches import EXPERIMENT, WrittenTrial, point, reference, write_search
from support.stores import new_store

from dmltune import tags
from dmltune.cli import main
from dmltune.ledger import Ledger, LedgerEntry
from dmltune.search.study import Study
from dmltune.store import Store
from dmltune.tracking import Tracker
from dmltune.train.name_claim import claim_name

TRIALS = [reference(0.4), point(0.5), WrittenTrial("search", {0: 0.1}, state=TrialState.PRUNED)]


@pytest.fixture
def store(tmp_path: Path, original: Store) -> Store:
    """A copy of `original`, which is as good as a store that was moved."""
    return Store(shutil.copytree(original.root, tmp_path / "runs"))


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Two equal searches, a check of the first, and a test ledger."""
    store = new_store(tmp_path_factory.mktemp("runs"))
    for name in ("first", "second"):
        write_search(store, name, TRIALS, children=range(3))
        (store.search_folder(name) / "trials" / "0002").mkdir(parents=True)
        (store.search_folder(name) / "trials" / "0002" / "model.safetensors").write_bytes(b"weights")
    tracker = Tracker(store)
    key = {tags.NAME: "first-check", tags.NUMBER: tags.PARENT}
    about = {tags.ROLE: "check", tags.CHECKED: "first"}
    run_id = tracker.begin_run(tracker.experiment("glyphs-ccp"), "first-check", key, {}, about)[0]
    tracker.log_json(run_id, "check.json", {})
    Ledger(store).write(LedgerEntry("check", "first", "why", "glyphs", "f"))
    return store


def rows(store: Store) -> Counter[str]:
    """How many rows every table of both databases has."""
    counts: Counter[str] = Counter()
    for file in ("mlflow.db", "optuna.db"):
        with contextlib.closing(sqlite3.connect(store.root / file)) as database:
            tables = database.execute("select name from sqlite_master where type = 'table'").fetchall()
            for (table,) in tables:
                counts[f"{file}:{table}"] = database.execute(f'select count(*) from "{table}"').fetchone()[0]
    return counts


def files(store: Store) -> set[str]:
    return {str(path.relative_to(store.root)) for path in store.root.rglob("*")}


def test_two_equal_searches_leave_what_the_other_has_and_the_check_and_the_ledger(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    rows_before, files_before = rows(store), files(store)
    ledger = Ledger(store).path.read_bytes()
    assert main(["rm", "first", "--yes", "--store", str(store.root)]) == 0
    out = capsys.readouterr().out
    assert "removed 'first': 3 trials, 4 runs, " in out
    assert "kept: check first-check" in out
    gone = rows_before - rows(store)
    assert (gone["mlflow.db:runs"], gone["optuna.db:studies"], gone["optuna.db:trials"]) == (4, 1, 3)
    files_gone = files_before - files(store)
    assert main(["rm", "second", "--yes", "--store", str(store.root)]) == 0
    assert rows_before - rows(store) == Counter({table: 2 * count for table, count in gone.items()})
    assert len(files_before - files(store)) == 2 * len(files_gone)
    assert Ledger(store).path.read_bytes() == ledger
    assert not [path for path in files(store) if "first" in path or "second" in path or "note.txt" in path]
    assert Tracker(store).names() == ["first-check"]


def test_the_name_is_new_afterwards(store: Store) -> None:
    assert main(["rm", "first", "--yes", "--store", str(store.root)]) == 0
    with claim_name(store, "first", EXPERIMENT.with_values({"max_steps": 90}), "other data"):
        assert Study(store, "first", "max").trials() == []


def test_a_removal_that_was_interrupted_is_finished_by_the_next(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    for step in ("dmltune.search.removal.delete_study", "dmltune.store.Store.discard"):
        with monkeypatch.context() as patch:
            patch.setattr(step, killed)
            assert main(["rm", "first", "--yes", "--store", str(store.root)]) == 130
    assert main(["rm", "first", "--yes", "--store", str(store.root)]) == 0
    assert Tracker(store).names() == ["first-check", "second"]


def test_a_running_search_is_refused(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    before = rows(store)
    with claim_name(store, "first", EXPERIMENT, "glyphs:f"):
        assert main(["rm", "first", "--yes", "--store", str(store.root)]) == 2
    assert capsys.readouterr().err == "'first' is running. Stop it first: dmltune stop first\n"
    assert rows(store) == before


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("yes\n", 0), ("n\n", 1), ("\n", 1), ("", 1)])
def test_it_asks_on_a_terminal(
    answer: str,
    code: int,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    assert main(["rm", "second", "--store", str(store.root), "-f", "json"]) == code
    captured = capsys.readouterr()
    assert "remove 'second': 3 trials, 4 runs, " in captured.err
    document = json.loads(captured.out)
    assert (document["removed"], document["trials"], document["checks"]) == (code == 0, 3, [])
    assert ("second" in Tracker(store).names()) == (code == 1)


def test_without_a_terminal_or_a_search_it_is_a_mistake(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", StringIO("y\n"))
    for name, message in (
        ("first", "no terminal to ask. Add --yes.\n"),
        ("first-check", "'first-check' is a check, not a search. Name the search.\n"),
        ("frist", "no search 'frist' in this store; did you mean 'first'?\n"),
    ):
        assert main(["rm", name, "--store", str(store.root)]) == 2
        assert capsys.readouterr().err.endswith(message)
    assert "first" in Tracker(store).names()
