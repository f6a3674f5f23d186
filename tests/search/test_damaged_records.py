"""A damaged study or database of runs: one line that names it, and nothing begins anew."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from support.trial_records import EXPERIMENT, open_records, run_trial

from dmltune.errors import UserError
from dmltune.experiment import load_experiment
from dmltune.search.api import search
from dmltune.store import Store

Damage = Callable[[Path], object]


def sql(statement: str) -> Damage:
    def run(path: Path) -> None:
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.execute(statement)
            database.commit()

    return run


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 3])


def as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def as_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


FILES: dict[str, Damage] = {
    "text": lambda path: path.write_text("SELECT no database\n" * 99),
    "binary": lambda path: path.write_bytes(b"\xff" * 5000),
    "truncated": truncate,
    "folder": as_folder,
    "fifo": as_fifo,
}


STUDIES: dict[str, Damage] = FILES | {
    "deleted": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "without the study": sql("DELETE FROM studies"),
    "without trials": sql("DELETE FROM trials"),
    "without tables": sql("DROP TABLE trial_values"),
    "newer schema": sql("UPDATE version_info SET library_version = '99.0.0', schema_version = 99"),
    "newer revision": sql("UPDATE alembic_version SET version_num = 'v99.0.0.a'"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one finished trial."""
    folder = tmp_path_factory.mktemp("made")
    run_trial(open_records(folder), 0.5)
    return folder


def one_line(folder: Path) -> str:
    with pytest.raises(UserError) as error:
        open_records(folder)
    message = str(error.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("damage", STUDIES)
def test_a_damaged_study_is_one_line_and_nothing_begins_anew(made: Path, tmp_path: Path, damage: str) -> None:
    folder = shutil.copytree(made, tmp_path / "store")
    STUDIES[damage](folder / "optuna.db")
    message = one_line(folder)
    assert "--name" in message or "--store" in message  # the remedy
    assert "stud" in message or "optuna.db" in message
    if damage in ("deleted", "empty"):
        assert one_line(folder)  # the refusal has not made a study that looks whole


@pytest.mark.parametrize("damage", [*FILES, "newer schema"])
def test_a_damaged_database_of_runs_is_one_line(made: Path, tmp_path: Path, damage: str) -> None:
    folder = shutil.copytree(made, tmp_path / "store")
    newer = sql("UPDATE alembic_version SET version_num = 'ffffffffffff'")
    (FILES | {"newer schema": newer})[damage](folder / "mlflow.db")
    assert "--store" in one_line(folder)


def test_a_search_that_cannot_start_is_one_line_before_ray(tmp_path: Path) -> None:
    store = Store.at(tmp_path)
    for options, message in (
        ({"trials": 0}, "--trials must be at least 1; got 0"),
        ({"time": 0.0}, "--time must be above 0; got 0 s"),
        ({"workers": 0}, "--workers must be at least 1; got 0"),
        ({"concurrent": 0}, "--concurrent must be at least 1; got 0"),
        ({"name": "../x"}, r"a name must be letters, digits"),
    ):
        with pytest.raises(UserError, match=message):
            search(EXPERIMENT, space_name="glyphs-ccp", store=store, **options)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="nothing to search"):
        search(load_experiment("glyphs"), space_name="glyphs", store=store)
    assert not (tmp_path / "searches").exists()
