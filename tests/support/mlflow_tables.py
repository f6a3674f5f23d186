"""MLflow's tables of an empty SQLite database, made once: its migrations take a CPU second each time."""

from __future__ import annotations

import contextlib
import sqlite3
from functools import cache
from typing import Any

from mlflow.store.db import utils
from sqlalchemy import Engine, StaticPool, create_engine

_made = utils._initialize_tables


def copy_the_tables() -> None:
    """Let every empty database that MLflow opens in this process from now on get copies of the tables."""
    utils._initialize_tables = _copied


@cache
def tables() -> sqlite3.Connection:
    """Return a database in memory; forks of this process have it too."""
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    _made(create_engine("sqlite://", creator=lambda: connection, poolclass=StaticPool))
    return connection


def _copied(engine: Engine) -> Any:
    file = engine.url.database
    if engine.dialect.name != "sqlite" or not file or not utils._is_empty_database(engine):
        return _made(engine)
    with contextlib.closing(sqlite3.connect(file)) as target:
        tables().backup(target)
    return None
