"""Stores for tests. Empty databases take seconds to migrate, so a process does it once and copies them."""

from __future__ import annotations

import atexit
import contextlib
import shutil
import sqlite3
import tempfile
from functools import cache
from pathlib import Path

from optuna.storages import RDBStorage

from dmltune.store import Store
from dmltune.tracking import Tracker


def new_store(folder: Path) -> Store:
    """Return an empty store in `folder` whose databases are made."""
    store = Store.at(folder)
    for file in _databases().iterdir():
        shutil.copy(file, store.root)
    return store


def copy_store(source: Path, target: Path) -> None:
    """Copy a store; MLflow's absolute addresses of artifacts are those of the copy then."""
    shutil.copytree(source, target, dirs_exist_ok=True)
    with contextlib.closing(sqlite3.connect(target / "mlflow.db")) as database:
        for table, column in (("runs", "artifact_uri"), ("experiments", "artifact_location")):
            statement = f"update {table} set {column} = replace({column}, ?, ?)"
            database.execute(statement, (str(source), str(target)))
        database.commit()


@cache
def _databases() -> Path:
    store = Store.at(tempfile.mkdtemp(prefix="dmltune-test-"))
    atexit.register(shutil.rmtree, store.root, ignore_errors=True)
    assert Tracker(store).client
    RDBStorage(store.optuna_url).engine.dispose()
    (store.root / ".creating").unlink()
    return store.root
