"""Artifact addresses of MLflow are absolute; those of a moved or copied store are set to its own folder."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path


def repair_addresses(database: Path, artifacts: Path) -> None:
    """Let every experiment and run of this database have its artifacts in `artifacts`.

    Without it a copied store reads and writes the artifacts of the original, and a moved one has none.
    """
    if not database.is_file():
        return
    with contextlib.closing(sqlite3.connect(database, timeout=60)) as connection, connection:
        tables = {
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }
        if not {"experiments", "runs"} <= tables:
            return
        query = "SELECT experiment_id, name, artifact_location FROM experiments"
        for experiment_id, name, location in connection.execute(query).fetchall():
            own, recorded = (artifacts / str(name)).as_uri(), str(location)
            if recorded == own or not recorded.endswith(f"/artifacts/{Path(own).name}"):
                continue  # in its place, or somewhere that dmltune did not choose
            connection.execute(
                "UPDATE experiments SET artifact_location = ? WHERE experiment_id = ?", (own, experiment_id)
            )
            connection.execute(
                "UPDATE runs SET artifact_uri = ? || substr(artifact_uri, ?) "
                "WHERE experiment_id = ? AND substr(artifact_uri, 1, ?) = ?",
                (own, len(recorded) + 1, experiment_id, len(recorded), recorded),
            )
