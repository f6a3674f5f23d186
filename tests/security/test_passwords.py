"""Addresses with passwords: nothing that a command writes, prints or starts shows them."""

from __future__ import annotations

import contextlib
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from support.driving import QUICK, Driver, Place
from support.postgres import PROGRAMS, USER, is_installed, postgres

SECRET = "geheim77"
pytestmark = pytest.mark.skipif(not is_installed(), reason="needs PostgreSQL 15 (apt install postgresql)")


@dataclass
class Seen:
    """What the commands left behind, as one text for each place."""

    texts: dict[str, bytes] = field(default_factory=dict)
    arguments: set[str] = field(default_factory=set)


def watch(driver: Driver, seen: Seen) -> None:
    """Collect the arguments of all processes of the command until it has ended."""
    while driver.process.poll() is None:
        driver.look()
        for pid in (driver.process.pid, *driver.seen):
            with contextlib.suppress(psutil.Error):
                seen.arguments.add(" ".join(psutil.Process(pid).cmdline()))
        time.sleep(0.2)
    driver.finish()


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    folder = tmp_path_factory.mktemp("passwords")
    place, seen = Place(folder), Seen()
    with postgres("runs", "studies") as server:

        def address(database: str) -> str:
            return server.uri(database).replace(f"{USER}@", f"{USER}:{SECRET}@")

        environment = {"MLFLOW_TRACKING_URI": address("runs"), "DMLTUNE_OPTUNA_STORAGE": address("studies")}
        search = ("search", "glyphs-ccp", *QUICK, "noise_seeds=1", "repeat_share=0", "--trials", "2")
        try:
            for words in (
                (*search, "--name", "s", "-vv"),
                ("report", "s", "-o", "page.html"),
                ("check", "s", "--dry-run"),
            ):
                driver = place.start(*words, **environment)
                watch(driver, seen)
                assert driver.process.returncode == 0, driver.text
            for database in ("runs", "studies"):
                dump = (str(PROGRAMS / "pg_dump"), "-h", "127.0.0.1", "-p", str(server.port), "-U", USER)
                done = subprocess.run([*dump, database], capture_output=True, check=True)
                seen.texts[database] = done.stdout
            server.control("-m", "immediate", "stop")
            driver = place.start("runs", "-v", **environment)  # what a lost server makes the libraries say
            watch(driver, seen)
            assert driver.process.returncode == 2, driver.text
        finally:
            place.clean_up()
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            seen.texts[str(path.relative_to(folder))] = path.read_bytes()
    return seen


def test_files_databases_and_outputs_do_not_hold_a_password(seen: Seen) -> None:
    assert b"dmltune.search" in seen.texts["runs"]
    assert b"study_name" in seen.texts["studies"]
    assert "page.html" in seen.texts
    assert len([name for name in seen.texts if Path(name).name.startswith("log-")]) == 4
    assert [name for name, text in seen.texts.items() if SECRET.encode() in text] == []


def test_no_process_has_a_password_among_its_arguments(seen: Seen) -> None:
    assert any("RayTrainWorker" in arguments for arguments in seen.arguments)
    assert [arguments for arguments in seen.arguments if SECRET in arguments] == []
