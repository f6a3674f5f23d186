"""Ways to damage one file of a store."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.numpy import load_file, save_file

Damage = Callable[[Path], object]


def store_file(name: str) -> Callable[[Path], Path]:
    return lambda folder: folder / "runs" / name


def artifact(name: str) -> Callable[[Path], Path]:
    """The artifact of this name of the search's run, or, below `model`, of the winner's model."""

    def find(folder: Path) -> Path:
        artifacts = folder / "runs" / "artifacts"
        if not name.startswith("model"):
            run = sql(folder, "mlflow.db", "select run_uuid from tags where key = 'dmltune.winner'")[0][0]
            return next(artifacts.glob(f"*/{run}/artifacts")) / name
        model = "select value from tags where key = 'dmltune.model_id' and run_uuid in"
        model += " (select value from tags where key = 'dmltune.winner_model')"
        found = sql(folder, "mlflow.db", model)[0][0]
        return next(artifacts.glob(f"*/models/{found}/artifacts")) / name.removeprefix("model").lstrip("/")

    return find


def sql(folder: Path, database: str, *statements: str) -> list[Any]:
    with contextlib.closing(sqlite3.connect(folder / "runs" / database)) as connection:
        rows = [connection.execute(statement).fetchall() for statement in statements]
        connection.commit()
    return rows[-1]


def statement(database: str, *statements: str) -> Damage:
    return lambda folder: sql(folder, database, *statements)


def write(find: Callable[[Path], Path], content: bytes) -> Damage:
    return lambda folder: find(folder).write_bytes(content)


def cut(find: Callable[[Path], Path], share: float) -> Damage:
    return lambda folder: os.truncate(find(folder), int(find(folder).stat().st_size * share))


def scramble(find: Callable[[Path], Path], begin: float = 0.1) -> Damage:
    """Overwrite the file from a place on, but for its first page."""

    def damage(folder: Path) -> None:
        path = find(folder)
        data = bytearray(path.read_bytes())
        start = max(4096, int(len(data) * begin))
        data[start : start + len(data) // 3] = b"\xa5" * len(data[start : start + len(data) // 3])
        path.write_bytes(data)

    return damage


def replaced(find: Callable[[Path], Path], kind: str) -> Damage:
    """Put a folder or a FIFO in place of the file, or nothing."""

    def damage(folder: Path) -> None:
        path = find(folder)
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        if kind == "folder":
            path.mkdir()
        elif kind == "fifo":
            os.mkfifo(path)

    return damage


def edit(find: Callable[[Path], Path], change: Callable[[Any], Any]) -> Damage:
    def damage(folder: Path) -> None:
        path = find(folder)
        document = json.loads(path.read_text())
        changed = change(document)
        path.write_text(json.dumps(document if changed is None else changed))

    return damage


def tensors(change: Callable[[dict[str, Any]], object]) -> Damage:
    def damage(folder: Path) -> None:
        path = artifact("model/model.safetensors")(folder)
        weights = load_file(path)
        change(weights)
        save_file(weights, path)

    return damage


def metadata(change: Callable[[dict[str, str]], dict[str, str]]) -> Damage:
    """Change the metadata in the header of the file with the weights."""

    def damage(folder: Path) -> None:
        path = artifact("model/model.safetensors")(folder)
        with safe_open(path, "numpy") as file:
            entries = file.metadata()
        save_file(load_file(path), path, change(entries))

    return damage


def bits(folder: Path) -> None:
    path = artifact("model/model.safetensors")(folder)
    data = bytearray(path.read_bytes())
    for place in range(len(data) // 2, len(data) // 2 + 4000, 4):
        data[place + 1] ^= 0x40
    path.write_bytes(data)


def moved(folder: Path) -> None:
    (folder / "runs").rename(folder / "runs-elsewhere")


def without(key: str) -> Callable[[Any], None]:
    return lambda document: document.pop(key, None) and None


def first(weights: dict[str, Any]) -> str:
    return next(name for name, value in sorted(weights.items()) if value.ndim > 1)


JSON_DAMAGES: dict[str, Callable[[Callable[[Path], Path]], Damage]] = {
    "empty": lambda find: write(find, b""),
    "binary": lambda find: write(find, b"\xff\xfe\x00"),
    "truncated": lambda find: cut(find, 0.3),
    "list": lambda find: write(find, b"[1, 2]"),
    "null": lambda find: write(find, b"null"),
    "deep": lambda find: write(find, b"[" * 300_000),
    "folder": lambda find: replaced(find, "folder"),
    "fifo": lambda find: replaced(find, "fifo"),
}
DATABASE_DAMAGES: dict[str, Callable[[Callable[[Path], Path]], Damage]] = {
    "text": lambda find: write(find, b"this is no database\n" * 300),
    "4-kb": lambda find: lambda folder: os.truncate(find(folder), 4096),
    "truncated": lambda find: cut(find, 0.6),
    "middle": scramble,
    "folder": lambda find: replaced(find, "folder"),
    "fifo": lambda find: replaced(find, "fifo"),
}
