"""Artifact addresses of MLflow are absolute; those of a moved or copied store are set to its own folder."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_RUNS_OF_EXPERIMENT = "SELECT run_uuid FROM runs WHERE experiment_id = ?"
# table, column of the address, columns of the key, and how a row belongs to an experiment
_TABLES = (
    ("runs", "artifact_uri", ("run_uuid",), "experiment_id = ?"),
    ("logged_models", "artifact_location", ("model_id",), "experiment_id = ?"),
    *(
        ("model_versions", column, ("name", "version"), f"run_id IN ({_RUNS_OF_EXPERIMENT})")
        for column in ("source", "storage_location")
    ),
)


@dataclass(frozen=True)
class Misplaced:
    """An address that points outside of the store's folder, and the one inside."""

    table: str
    column: str
    key: tuple[tuple[str, str], ...]
    recorded: str
    own: str


def repair_addresses(database: Path, artifacts: Path) -> int:
    """Let every experiment, run and model of this database have its artifacts in `artifacts`.

    Without it a copied store reads and writes the artifacts of the original, and a moved one has none. Return
    how many addresses have changed.
    """
    if not database.is_file():
        return 0
    with contextlib.closing(sqlite3.connect(database, timeout=60)) as connection, connection:
        found = list(_misplaced(connection, artifacts))
        for row in found:
            where = " AND ".join(f"{column} = ?" for column, _ in row.key)
            values = (row.own, *(value for _, value in row.key))
            connection.execute(f"UPDATE {row.table} SET {row.column} = ? WHERE {where}", values)
    return len(found)


def misplaced_addresses(database: Path, artifacts: Path) -> list[Misplaced]:
    """Return what `repair_addresses` would change."""
    if not database.is_file():
        return []
    with contextlib.closing(sqlite3.connect(database, timeout=60)) as connection:
        return list(_misplaced(connection, artifacts))


def _misplaced(connection: sqlite3.Connection, artifacts: Path) -> Iterator[Misplaced]:
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not {"experiments", "runs"} <= tables:
        return
    query = "SELECT experiment_id, name, artifact_location FROM experiments"
    for experiment_id, name, location in connection.execute(query).fetchall():
        own, recorded = (artifacts / str(name)).as_uri(), str(location)
        mark = f"/artifacts/{own.rpartition('/')[2]}"
        if not recorded.endswith(mark):
            continue  # somewhere that dmltune did not choose
        if recorded != own:
            experiment = (("experiment_id", str(experiment_id)),)
            yield Misplaced("experiments", "artifact_location", experiment, recorded, own)
        for table, column, keys, belongs in _TABLES:
            if table not in tables:
                continue
            rows = connection.execute(
                f"SELECT {column}, {', '.join(keys)} FROM {table} "
                f"WHERE {belongs} AND substr({column}, 1, ?) <> ?",
                (experiment_id, len(own) + 1, f"{own}/"),
            )
            for address, *values in rows.fetchall():
                head, found, tail = str(address).rpartition(f"{mark}/")
                if found and (recorded == own or head + mark == recorded):
                    key = tuple(zip(keys, map(str, values), strict=True))
                    yield Misplaced(table, column, key, str(address), f"{own}/{tail}")
