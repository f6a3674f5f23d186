"""The test ledger: no entry is lost or changed; half a line costs that line alone."""

from __future__ import annotations

import getpass
import json
import os
import socket
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dmltune.errors import UserError
from dmltune.ledger import FILE, Ledger, LedgerEntry
from dmltune.store import Store


def entry(study: str = "birds", check: str = "") -> LedgerEntry:
    return LedgerEntry("check", study, "to know", "cub", "0" * 16, check, ("abc", "def"), ("run",))


def test_an_entry_has_user_time_data_reason_and_command_and_is_read_as_it_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/dmltune", "check", "birds"])
    ledger, written = Ledger(Store(tmp_path)), entry(check="birds-check")
    ledger.write(written)
    (line,) = (tmp_path / FILE).read_text().splitlines()
    values = json.loads(line)
    assert values["who"] == f"{getpass.getuser()}@{socket.gethostname()}"
    assert abs((datetime.now(UTC) - datetime.fromisoformat(values["time"])).total_seconds()) < 60
    assert (values["study"], values["check"], values["kind"]) == ("birds", "birds-check", "check")
    assert (values["data"], values["fingerprint"], values["configurations"]) == (
        "cub",
        "0" * 16,
        ["abc", "def"],
    )
    assert values["why"] == "to know"
    assert values["command"] == "dmltune check birds"
    assert values["commit"]
    assert ledger.entries() == [written]


def test_entries_are_selected_by_the_name_of_the_study_or_of_the_check(tmp_path: Path) -> None:
    ledger = Ledger(Store(tmp_path))
    mine = [ledger.write(new) for new in (entry(check="birds-check"), entry(check="second"))]
    ledger.write(entry("cars"))
    assert ledger.entries("birds") == mine
    assert ledger.entries("birds-check") == mine[:1]
    assert len(ledger.entries()) == 3
    assert Ledger(Store(tmp_path / "empty")).entries() == []


def test_half_a_line_of_a_killed_writer_costs_only_that_line(tmp_path: Path) -> None:
    ledger = Ledger(Store(tmp_path))
    before = ledger.write(entry())
    with open(tmp_path / FILE, "a") as file:
        file.write('{"kind": "check", "stu')
    after = ledger.write(entry())
    assert ledger.entries() == [before, after]
    assert len((tmp_path / FILE).read_text().splitlines()) == 3


MANY = """
import sys
from pathlib import Path
from dmltune.ledger import Ledger, LedgerEntry
from dmltune.store import Store
for number in range(50):
    Ledger(Store(Path(sys.argv[1]))).write(
        LedgerEntry("evaluate", sys.argv[2], "x" * 5000, "cub", "0", id=str(number), commit="c")
    )
"""


def test_writers_at_the_same_time_lose_no_line_and_mix_none(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", MANY, str(tmp_path), name], env=os.environ)
        for name in ("one", "two")
    ]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0]
    ledger = Ledger(Store(tmp_path))
    for name in ("one", "two"):
        assert [entry.id for entry in ledger.entries(name)] == [str(number) for number in range(50)]
    assert len((tmp_path / FILE).read_text().splitlines()) == 100


def test_a_ledger_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    ledger = Ledger(Store(tmp_path))
    ledger.path.mkdir()
    with pytest.raises(UserError, match="must be a regular file") as error:
        ledger.write(entry())
    assert "\n" not in str(error.value)
    ledger.path.rmdir()
    os.mkfifo(ledger.path)  # opening it would wait for ever
    for action in (ledger.entries, lambda: ledger.write(entry())):
        with pytest.raises(UserError, match="must be a regular file"):
            action()
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="must be writable before test classes are opened") as error:
        Ledger(Store(tmp_path / "file")).write(entry())
    assert "\n" not in str(error.value)


def test_a_damaged_ledger_is_one_line_that_names_the_place(tmp_path: Path) -> None:
    ledger = Ledger(Store(tmp_path))
    ledger.write(entry())
    good = ledger.path.read_bytes()
    for damage in (b"noise\n", b"[]\n", b"5\n", b'{"kind": "check"}\n', b'{"other": 1}\n', b"\xff\xfe\n"):
        ledger.path.write_bytes(good + damage)
        for read in (ledger.entries, lambda: ledger.was_opened("cars")):
            with pytest.raises(UserError, match=r"jsonl:2: not an entry of the test ledger") as error:
                read()
            assert "\n" not in str(error.value)
    ledger.path.write_bytes(good + good.strip()[:-9] + b"\n" + good)  # cut off within its line
    assert len(ledger.entries()) == 2
    assert ledger.was_opened("cub")
    assert not ledger.was_opened("cars")


def test_an_unknown_kind_of_entry_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="an opening is one of"):
        Ledger(Store(tmp_path)).write(LedgerEntry("peek", "birds", "", "cub", "0"))  # type: ignore[arg-type]
    assert not (tmp_path / FILE).exists()
