"""`dmltune stop` against processes that hold a name, and what runs, has ended or is elsewhere."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.stored_searches import reference, write_search
from support.stores import new_store

from dmltune.cli import main
from dmltune.store import Store
from dmltune.train.name_holder import HOLDER, LOCK, is_held, name_holder
from dmltune.train.stop_signals import TOGETHER_S

HOLD = """
import sys, time
from pathlib import Path
from filelock import FileLock
from dmltune.train.name_holder import note_holder
from dmltune.train.stop_signals import stop_signals
folder = Path(sys.argv[1])
with FileLock(folder / "lock"), stop_signals(lambda text: None) as stopped:
    note_holder(folder)
    print("held", flush=True)
    stopped.wait()
    print("asked", flush=True)
    time.sleep(float(sys.argv[2]))
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = new_store(tmp_path_factory.mktemp("runs"))
    write_search(store, "whole", [reference(0.4)])
    write_search(store, "killed", [reference(0.4)], state=None, planned=5)
    return store


@pytest.fixture(params=["heard", "ignored"])
def holder(store: Store, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """A process that holds `killed` and ends in order; a shell's background job ignores Ctrl-C."""
    usual = signal.SIG_IGN if request.param == "ignored" else signal.default_int_handler
    yield from holding(store, "0.3", usual)


@pytest.fixture
def slow(store: Store) -> Iterator[subprocess.Popen[str]]:
    yield from holding(store, "60", signal.default_int_handler)


def holding(store: Store, seconds: str, usual: object) -> Iterator[subprocess.Popen[str]]:
    before = signal.signal(signal.SIGINT, usual)  # type: ignore[arg-type]
    command = [sys.executable, "-c", HOLD, str(store.search_folder("killed")), seconds]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    signal.signal(signal.SIGINT, before)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_a_holder_ends_in_order_and_the_command_that_resumes_is_shown(
    holder: subprocess.Popen[str], store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    found = name_holder(store, "killed")
    assert found is not None
    assert found.pid == holder.pid
    assert main(["stop", "killed", "--store", str(store.root)]) == 0
    assert holder.wait(5) == 0  # it took the signal and left its block
    assert not is_held(store, "killed")
    captured = capsys.readouterr()
    assert captured.out.splitlines() == [
        "'killed' has stopped; it is interrupted",
        "",
        f"  dmltune resume killed --store {store.root}",
    ]
    assert captured.err == f"process {holder.pid} was asked to stop 'killed'; waiting for its end\n"


def test_one_that_takes_long_is_named_and_the_second_time_it_ends_at_once(
    slow: subprocess.Popen[str], store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["stop", "killed", "--store", str(store.root), "-f", "json"]
    assert main([*words, "--wait", "0.2s"]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "name": "killed", "stopped": False, "pid": slow.pid, "state": "running",
    }  # fmt: skip
    assert slow.stdout is not None
    assert slow.stdout.readline() == "asked\n"
    time.sleep(2 * TOGETHER_S)  # two signals at once count as one
    assert main([*words, "--wait", "30s"]) == 0
    assert slow.wait(5) != 0
    assert json.loads(capsys.readouterr().out)["state"] == "interrupted"


def test_what_does_not_run_is_told_with_its_state_and_is_no_mistake(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stop", "whole", "--store", str(store.root)]) == 0
    assert capsys.readouterr().out == "'whole' does not run; it is complete\n"
    assert main(["stop", "kiled", "--store", str(store.root)]) == 2
    assert capsys.readouterr().err == "no search 'kiled' in this store; did you mean 'killed'?\n"


def test_a_holder_elsewhere_or_without_a_note_gets_no_signal(
    slow: subprocess.Popen[str], store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    note = store.search_folder("killed") / HOLDER
    own = note.read_text()
    host, pid, started = own.rsplit(":", 2)
    for text, expected in (
        (f"elsewhere:{pid}:{started}", "'killed' runs on elsewhere. Stop it there: dmltune stop killed\n"),
        (
            f"{host}:{pid}:t{int(started.removeprefix('t')) + 7}",
            "'killed' runs in a process that left no note",
        ),
        (f"{host}:x", "'killed' runs in a process that left no note"),
    ):
        note.write_text(text)
        assert main(["stop", "killed", "--store", str(store.root)]) == 2
        assert capsys.readouterr().err.startswith(expected)
    assert slow.poll() is None


def test_a_note_of_a_process_that_is_gone_is_not_a_holder(store: Store, tmp_path: Path) -> None:
    folder = Store(tmp_path).search_folder("x")
    folder.mkdir(parents=True)
    assert name_holder(Store(tmp_path), "x") is None
    (folder / LOCK).touch()
    (folder / HOLDER).write_text("here:1:1")
    assert name_holder(Store(tmp_path), "x") is None
