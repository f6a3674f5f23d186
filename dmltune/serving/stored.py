"""Where the files of a model are: a folder, a `.safetensors` file, or the name of a search, training or run.

A name is looked up in the store's own database with SQLite. MLflow is imported for a tracking server, and
when the lookup fails: then `dmltune.models` has the error to show.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from dmltune import tags
from dmltune.core.checkpoint import MODEL
from dmltune.errors import UserError, readable
from dmltune.store import Store, is_name

_RUN_ID = re.compile(r"[0-9a-f]{32}")
_FOLDER = "model"  # the artifact of a run
_RUN = """
    SELECT a.run_uuid FROM tags a
    JOIN tags b ON b.run_uuid = a.run_uuid
    JOIN runs r ON r.run_uuid = a.run_uuid
    WHERE a.key = ? AND a.value = ? AND b.key = ? AND b.value = ? AND r.lifecycle_stage = 'active'
"""
_PLACE = """
    SELECT e.name, r.artifact_uri FROM runs r
    JOIN experiments e ON e.experiment_id = r.experiment_id
    WHERE r.run_uuid = ? AND r.lifecycle_stage = 'active'
"""
_LOGGED_MODEL = "SELECT artifact_location FROM logged_models WHERE model_id = ?"


@contextlib.contextmanager
def model_folder(name: str | Path, store: Store | None = None) -> Iterator[Path]:
    """Yield the folder or file of the model, for the block alone: a server's files are temporary here."""
    place = Path(name)
    try:
        if (place / MODEL).is_file() or (place.suffix == ".safetensors" and place.is_file()):
            yield place
            return
        is_path = isinstance(name, Path) or "/" in name or place.suffix == ".safetensors"
        missing = is_path and not place.exists()
    except (OSError, ValueError) as error:
        raise UserError(f"no model at {readable(str(name))} ({error}).") from None
    if is_path:
        what = "does not exist" if missing else f"has no {MODEL}"
        raise UserError(
            f"a model must be a name, a run id or a folder with {MODEL}; {readable(str(name))} {what}."
        )
    store = store or Store.to_read()
    if (local := _local_folder(str(name), store)) is not None:
        yield local
        return
    from dmltune.models import run_with_model
    from dmltune.tracking import Tracker

    with run_with_model(str(name), Tracker(store)) as (_, folder):
        yield folder


def _local_folder(name: str, store: Store) -> Path | None:
    """Return the folder of the model as the store's own database has it; None when that has no answer."""
    database = store.root / "mlflow.db"
    if not store.owns_tracking or not database.is_file() or not is_name(name):
        return None
    try:
        address = f"{database.as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(address, uri=True, timeout=60)) as connection:
            return _folder_of(name, store, connection)
    except sqlite3.Error:
        return None


def _folder_of(name: str, store: Store, connection: sqlite3.Connection) -> Path | None:
    run_id: str | None = name
    if not _RUN_ID.fullmatch(name):
        found = connection.execute(_RUN, (tags.NAME, name, tags.NUMBER, tags.PARENT)).fetchone()
        run_id = None if found is None else str(found[0])
    labels = {} if run_id is None else _labels(connection, run_id)
    if labels.get(tags.ROLE) == "check":
        return None
    if winner := labels.get(tags.WINNER_MODEL, labels.get(tags.WINNER)):
        run_id, labels = winner, _labels(connection, winner)
    if run_id is None or labels.get(tags.MODEL) != tags.STORED:
        return None
    place = connection.execute(_PLACE, (run_id,)).fetchone()
    if place is None:
        return None
    experiment, address = str(place[0]), f"{place[1]}/{_FOLDER}"
    if model_id := labels.get(tags.MODEL_ID):
        logged = connection.execute(_LOGGED_MODEL, (model_id,)).fetchone()
        address = "" if logged is None else str(logged[0])
    folder = Path(unquote(urlsplit(address).path))
    own = store.artifacts / experiment
    _, inside, tail = str(folder).rpartition(f"/artifacts/{experiment}/")
    if inside:  # of this store, wherever it was moved to
        folder = own / tail
    if store.address and folder.is_relative_to(store.artifacts):
        store.bring(folder)
    return folder if (folder / MODEL).is_file() else None


def _labels(connection: sqlite3.Connection, run_id: str) -> dict[str, str]:
    return dict(connection.execute("SELECT key, value FROM tags WHERE run_uuid = ?", (run_id,)).fetchall())
