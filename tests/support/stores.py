"""Stores for tests. Empty databases take seconds to migrate, so a process does it once and copies them."""

from __future__ import annotations

import atexit
import shutil
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


@cache
def _databases() -> Path:
    store = Store.at(tempfile.mkdtemp(prefix="dmltune-test-"))
    atexit.register(shutil.rmtree, store.root, ignore_errors=True)
    assert Tracker(store).client
    RDBStorage(store.optuna_url).engine.dispose()
    (store.root / ".creating").unlink()
    return store.root
