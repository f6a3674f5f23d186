"""The test ledger: nothing is lost, nothing is changed, half a line hurts nobody."""

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


def test_an_opening_says_who_when_what_and_why_and_comes_back_as_it_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/dmltune", "check", "birds"])
    ledger, written = Ledger(Store(tmp_path)), entry(check="birds-check")
    ledger.write(written)
    (line,) = (tmp_path / FILE).read_text().splitlines()
    found = json.loads(line)
    assert found["who"] == f"{getpass.getuser()}@{socket.gethostname()}"
    assert abs((datetime.now(UTC) - datetime.fromisoformat(found["time"])).total_seconds()) < 60
    assert (found["study"], found["check"], found["kind"]) == ("birds", "birds-check", "check")
    assert (found["data"], found["fingerprint"], found["configurations"]) == ("cub", "0" * 16, ["abc", "def"])
    assert found["why"] == "to know"
    assert found["command"] == "dmltune check birds"
    assert found["commit"]
    assert ledger.entries() == [written]


def test_openings_of_a_study_are_found_by_its_name_and_by_that_of_its_check(tmp_path: Path) -> None:
    ledger = Ledger(Store(tmp_path))
    mine = [ledger.write(one) for one in (entry(check="birds-check"), entry(check="again"))]
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
from dmltune.check.ledger import LedgerEntry, Ledger
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
        assert [one.id for one in ledger.entries(name)] == [str(number) for number in range(50)]
    assert len((tmp_path / FILE).read_text().splitlines()) == 100


def test_a_ledger_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    with pytest.raises(UserError, match="must be writable before test classes are opened") as caught:
        Ledger(Store(tmp_path)).write(entry())
    assert "\n" not in str(caught.value)


def test_an_unknown_kind_of_opening_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="an opening is one of"):
        Ledger(Store(tmp_path)).write(LedgerEntry("peek", "birds", "", "cub", "0"))  # type: ignore[arg-type]
    assert not (tmp_path / FILE).exists()
