"""Databases of tests need not survive a loss of power, so no transaction waits for the disk."""

from __future__ import annotations

import contextlib
import sqlite3
import sqlite3.dbapi2
from typing import Any


def never_wait_for_the_disk() -> None:
    """Switch `synchronous` off in every SQLite connection that this process opens from now on."""
    connect = sqlite3.dbapi2.connect

    def connected(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)
        with contextlib.suppress(sqlite3.Error):  # a damaged file: the first use of it tells
            connection.execute("PRAGMA synchronous = OFF")
        return connection

    sqlite3.connect = sqlite3.dbapi2.connect = connected  # type: ignore[assignment]
