"""Debian's PostgreSQL in a folder of its own, as another user (it refuses root), on 127.0.0.1."""

from __future__ import annotations

import contextlib
import os
import pwd
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support.servers import closed_port

PROGRAMS = Path("/usr/lib/postgresql/15/bin")
USER = "nobody"


def is_installed() -> bool:
    return (PROGRAMS / "initdb").is_file()


@dataclass
class Postgres:
    folder: Path
    port: int

    def uri(self, database: str) -> str:
        return f"postgresql+psycopg2://{USER}@127.0.0.1:{self.port}/{database}"

    def control(self, *words: str) -> None:
        options = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        _as_user(
            str(PROGRAMS / "pg_ctl"), "-D", str(self.folder / "data"), "-o", options, "-w",
            "-l", str(self.folder / "log.txt"), *words,
        )  # fmt: skip

    def restart(self) -> None:
        """Break all connections, as a crash does."""
        self.control("-m", "immediate", "restart")


@contextlib.contextmanager
def postgres(*databases: str) -> Iterator[Postgres]:
    folder = Path(tempfile.mkdtemp(prefix="dmltune-pg-", dir="/tmp"))  # short, as paths of sockets must be
    with _removed_at_the_end(folder):
        if os.getuid() == 0:
            shutil.chown(folder, USER)
        server = Postgres(folder, closed_port())
        _as_user(str(PROGRAMS / "initdb"), "-D", str(folder / "data"), "-U", USER, "-A", "trust", "-N")
        server.control("start")
        for name in databases:
            _as_user(str(PROGRAMS / "createdb"), "-h", "127.0.0.1", "-p", str(server.port), "-U", USER, name)
        yield server


@contextlib.contextmanager
def _removed_at_the_end(folder: Path) -> Iterator[None]:
    """Stop the server and delete its folder, even when this process ends by kill -9.

    Another process waits for the end of a pipe that this one holds.
    """
    stop = _command(str(PROGRAMS / "pg_ctl"), "-D", str(folder / "data"), "-m", "immediate", "stop")
    script = f"cat; {shlex.join(stop)}; rm -rf {shlex.quote(str(folder))}"
    with subprocess.Popen(
        ["sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/tmp",
        start_new_session=True,
    ):
        yield


def _as_user(*command: str) -> None:
    subprocess.run(_command(*command), check=True, capture_output=True, cwd="/tmp", timeout=120)


def _command(*words: str) -> tuple[str, ...]:
    if os.getuid() != 0:
        return words
    group = pwd.getpwnam(USER).pw_gid
    return ("setpriv", f"--reuid={USER}", f"--regid={group}", "--clear-groups", *words)
