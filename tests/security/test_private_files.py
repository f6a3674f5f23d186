"""What dmltune writes is for its user alone. support/fork_server runs all commands under umask 0."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.finished_search import NAME, finished_search
from support.stores import copy_store

from dmltune.cli import main
from dmltune.data.cache import cached
from dmltune.ledger import Ledger, LedgerEntry
from dmltune.private import private_files, shared_files, users_umask
from dmltune.store import Store
from dmltune.tracking import Tracker
from dmltune.train.name_claim import hold_name


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def open_to_others(folder: Path) -> list[str]:
    """Return what others could read or write, links apart."""
    found = [folder, *folder.rglob("*")]
    assert len(found) > 2
    return [f"{mode(path):o} {path}" for path in found if not path.is_symlink() and mode(path) & 0o077]


@pytest.fixture(params=[0, 0o022])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    assert os.umask(before) == request.param, "it was given back"


def test_a_store_with_a_search_is_private(tmp_path_factory: pytest.TempPathFactory) -> None:
    store = Path(finished_search(tmp_path_factory).store)
    names = {path.name for path in store.rglob("*")}
    assert {"mlflow.db", "optuna.db", "result.json", "model.safetensors", "holder", "report.html"} <= names
    made_before = {"mlflow.db", "optuna.db"}  # copies of empty databases that the tests made
    found = [line for line in open_to_others(store) if Path(line).name not in made_before]
    assert found == []


def test_new_databases_a_ledger_and_locks_are_private(umask: int, tmp_path: Path) -> None:
    store = Store.at(tmp_path / "new" / "mlruns")
    assert Tracker(store).client
    Ledger(store).write(LedgerEntry("evaluate", "s", "to test", "glyphs", "0"))
    with hold_name(store, "s", ""):
        (store.search_folder("s") / "plan.json").write_text("{}")
    assert (store.root / "mlflow.db").is_file()
    assert open_to_others(store.root) == []
    assert mode(tmp_path / "new") == 0o777 & ~umask, "a folder above the store is not the store's"


@pytest.mark.filterwarnings("default")
def test_files_that_a_user_asks_for_are_private(
    umask: int, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, out = tmp_path / "mlruns", tmp_path / "out"
    with private_files():
        copy_store(Path(finished_search(tmp_path_factory).store), store)
        out.mkdir()
    monkeypatch.chdir(out)
    for words in (
        ("report", NAME, "-o", "page.html"),
        ("export-config", NAME, "-o", "best.yaml"),
        ("export", NAME, "-o", "model.safetensors"),
        ("table", NAME, "-o", "table.csv"),
    ):
        main([*words, "--store", str(store)])
    assert {"page.html", "best.yaml", "model.safetensors"} <= {path.name for path in out.iterdir()}
    assert open_to_others(out) == []


def test_the_cache_of_images_is_open_to_whom_the_user_admits(
    umask: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DMLTUNE_CACHE", str(tmp_path / "cache"))
    with private_files():
        cached("entry", lambda folder: folder.joinpath("a").write_text("a") and None, Path.is_dir)
    assert mode(tmp_path / "cache" / "entry") == 0o777 & ~umask
    assert mode(tmp_path / "cache" / "entry" / "a") == 0o666 & ~umask


def test_the_umask_is_given_back_after_errors_and_within_each_other(umask: int) -> None:
    with private_files(), private_files():
        assert users_umask() == umask
        with pytest.raises(ValueError), shared_files():
            assert os.umask(umask) == umask
            raise ValueError
        assert users_umask() == umask
    assert users_umask() == umask
