"""One malformed input: the command, what is wrong around it, and what every refusal has to look like."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import pytest
from support.finished_search import COMMAND

from dmltune.cli import main

LONGEST = 1000  # characters of a message
SMALL = ("max_steps=4", "validate_every=2", "data.classes=40", "data.size=16", "batch.size=16")
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
CLEARED = (
    *("DMLTUNE_STORE", "DMLTUNE_DATA", "DMLTUNE_OPTUNA_STORAGE", "MLFLOW_TRACKING_URI", "RAY_ADDRESS"),
    *("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"),
)


@dataclass(frozen=True)
class Case:
    """`{store}`, `{dir}` and the servers `{dead}`, `{fails}`, `{mute}`, `{noise}` are filled in.

    `prepare` gets the case's folder. A `saved` case has a copy of a store with the finished search.
    """

    name: str
    command: tuple[str, ...]
    says: str = ""  # a pattern that the line must match
    code: int = 2
    prepare: Callable[[Path], object] = lambda folder: None
    env: Mapping[str, str] = field(default_factory=dict)
    saved: bool = False
    secret: str = "geheim77"
    seconds: float = 20.0
    shell: str = ""  # runs in a process; "$@" is the command


def plan(*more: str) -> tuple[str, ...]:
    return ("search", "glyphs-ccp", "--store", "{store}", "--dry-run", *more)


def resume(*more: str) -> tuple[str, ...]:
    """The search of the saved store once more. The address is no cluster: Ray is not started."""
    return (*COMMAND, "--address", "tripwire://x", "--store", "{store}", *more)


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str


class LateError(BaseException):
    """No answer in time. No `except Exception` of a library takes it for its own."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    def late(number: int, frame: FrameType | None) -> None:
        raise LateError(f"no answer in {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def here(
    case: Case,
    command: list[str],
    env: Mapping[str, str],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capture: pytest.CaptureFixture[str],
) -> Answer:
    """Run the case in this process."""
    for name in CLEARED:
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "tmp"))
    capture.readouterr()
    with time_limit(case.seconds):
        code = main(command)
    return Answer(code, *capture.readouterr())


def apart(case: Case, command: list[str], env: Mapping[str, str], folder: Path) -> Answer:
    """Run the case in a process of its own, started by a shell."""
    environment = {name: value for name, value in os.environ.items() if name not in CLEARED}
    environment |= {"TMPDIR": str(folder / "tmp"), "COLUMNS": "80", **env}
    done = subprocess.run(
        ["/bin/bash", "-c", case.shell, "sh", sys.executable, "-m", "dmltune", *command],
        capture_output=True,
        cwd=folder,
        env=environment,
        timeout=case.seconds + 40,
        check=False,
    )
    out, err = (stream.decode("utf-8", "surrogateescape") for stream in (done.stdout, done.stderr))
    return Answer(done.returncode, out, err)


def verify(case: Case, answer: Answer) -> None:
    """Assert what holds for every case, and what this one expects."""
    shown = f"\nexit code {answer.code}\n{answer.out[-800:]}\n{answer.err[-1500:]}"
    assert "Traceback" not in answer.err, shown
    assert answer.code == case.code, shown
    assert not CONTROL.search(answer.out + answer.err), f"control characters{shown!r}"
    assert case.secret not in answer.out + answer.err, f"a secret{shown}"
    if case.code == 2:
        assert answer.out == "", shown
        assert answer.err.count("\n") == 1, shown
        assert answer.err.endswith("\n"), shown
        assert 10 < len(answer.err) <= LONGEST, shown
    assert re.search(case.says, answer.out + answer.err), f"does not say {case.says}{shown}"


def files_of(folder: Path) -> set[str]:
    """Every path below `folder` that is not in a store; links are not followed."""
    paths = set()
    for root, folders, files in os.walk(folder):
        if Path(root) == folder and "runs" in folders:
            folders.remove("runs")
        paths |= {os.path.join(root, name) for name in (*folders, *files)}
    return paths
