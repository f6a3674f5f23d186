"""What a tracking store answers in pages."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from support.stores import new_store

from dmltune.tracking import Tracker


def test_experiments_are_found_beyond_the_first_page_of_1_000(tmp_path: Path) -> None:
    store = new_store(tmp_path / "mlruns")
    tracker = Tracker(store)
    own = tracker.experiment("glyphs-ccp")
    later = [(1000 + n, f"space-{n}", "active", 2**42, 2**42) for n in range(1000)]
    with contextlib.closing(sqlite3.connect(store.root / "mlflow.db")) as database:
        columns = "experiment_id, name, lifecycle_stage, creation_time, last_update_time"
        database.executemany(f"insert into experiments ({columns}) values (?, ?, ?, ?, ?)", later)
        database.commit()
    assert own not in {each.experiment_id for each in tracker.client.search_experiments()}
    assert own in tracker.experiment_ids()
