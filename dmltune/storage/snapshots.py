"""Consistent copies of SQLite databases that are written to at the same time."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path

WAIT_S = 60.0


def snapshot(databases: Sequence[Path], folder: Path) -> list[Path]:
    """Copy the databases as they are at one moment; return the copies.

    Writers wait while the copies are made, so that no copy has what another one lacks.
    """
    copies = []
    with contextlib.ExitStack() as stack:
        for database in databases:
            connection = stack.enter_context(contextlib.closing(_connect(database)))
            connection.execute("BEGIN IMMEDIATE")
            stack.callback(connection.rollback)
        for database in databases:
            copy = folder / database.name
            _copy(database, copy)
            copies.append(copy)
    return copies


def restore(copy: Path, database: Path) -> None:
    """Let `database` have the content of `copy`; a process that has it open sees the new content."""
    _copy(copy, database)
    database.chmod(0o600)


def change_marks(database: Path) -> tuple[int, ...]:
    """Return numbers that change when the database does."""
    marks: list[int] = []
    for path in (database, database.with_name(f"{database.name}-wal")):
        with contextlib.suppress(FileNotFoundError):
            status = path.stat()
            marks += [status.st_size, status.st_mtime_ns]
    return tuple(marks)


def _copy(source: Path, target: Path) -> None:
    with contextlib.closing(_connect(source)) as reader, contextlib.closing(_connect(target)) as writer:
        reader.backup(writer)


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)
