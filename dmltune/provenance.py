"""What code and which process made a run."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import sys
from functools import cache
from importlib import metadata
from pathlib import Path

import psutil

_TICKS = "t"  # before a start that is counted in ticks
PACKAGES = ("dmltune", "torch", "ray", "optuna", "mlflow")


def version_tags() -> dict[str, str]:
    """Return tags with the versions of the packages, and the commit when the code is a git clone."""
    versions = {f"version.{name}": metadata.version(name) for name in PACKAGES}
    commit = git_commit()
    return versions | ({"git.commit": commit} if commit else {})


@cache
def source_tags() -> dict[str, str]:
    """Return MLflow's own tags of who and what made a run: user, command, commit and branch."""
    program = Path(sys.argv[0])
    command = [program.parent.name if program.stem == "__main__" else program.name, *sys.argv[1:3]]
    made = {"mlflow.source.name": " ".join(command), "mlflow.source.type": "LOCAL"}
    with contextlib.suppress(OSError, KeyError, ImportError):  # a user id without a name
        made["mlflow.user"] = getpass.getuser()
    for tag, question in (
        ("mlflow.source.git.commit", ("rev-parse", "HEAD")),
        ("mlflow.source.git.branch", ("rev-parse", "--abbrev-ref", "HEAD")),
    ):
        if answer := _git(*question):
            made[tag] = answer
    return made


def git_commit() -> str | None:
    """Return the commit of this code, with `-dirty` when it was changed; None outside of a clone."""
    return _git("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")


def _git(*question: str) -> str | None:
    git = shutil.which("git")
    if git is None:
        return None
    command = [git, "-C", str(Path(__file__).parent), *question]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    return (answer.stdout.strip() or None) if answer.returncode == 0 else None


def this_process() -> str:
    """Return host:pid:start, which names a process even after its pid was given to another."""
    return f"{socket.gethostname()}:{os.getpid()}:{_start(os.getpid())}"


def is_elsewhere(process: str) -> bool:
    """Return whether `process` (host:pid:start) ran on another host."""
    host = process.partition(":")[0]
    return bool(host) and host != socket.gethostname()


def has_ended(process: str) -> bool:
    """Return whether `process` (host:pid:start) ran on this host and is gone."""
    host, _, rest = process.partition(":")
    pid, _, started = rest.partition(":")
    if host != socket.gethostname() or not pid.isdigit():
        return False
    try:
        return (_start if started.startswith(_TICKS) else _time_of_day)(int(pid)) != started
    except (psutil.NoSuchProcess, ValueError):
        return True


def _start(pid: int) -> str:
    """Return when a process started, in ticks since the machine did: a clock that is set moves no ticks."""
    if sys.platform != "linux":
        return _time_of_day(pid)
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        raise psutil.NoSuchProcess(pid) from None
    return f"{_TICKS}{int(fields[19])}"  # the 22nd, starttime in proc(5)


def _time_of_day(pid: int) -> str:
    """Return when a process started as earlier versions wrote it, and where there is no /proc."""
    return str(int(psutil.Process(pid).create_time()))
