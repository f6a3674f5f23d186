"""Commands in processes of their own, without the imports of each: a server imports once and forks.

Torch, Ray and MLflow take about six CPU-seconds to import, and the suite runs many dozens of commands. The
pytest process starts the server (`serving`, in tests/conftest.py); it imports when the first command comes.
A command has its own session, working folder, environment, standard output and standard error. It is a child
of the server, which tells the exit code when the process has ended.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

ADDRESS = "DMLTUNE_TEST_FORK_SERVER"  # of a Unix socket
TESTS = Path(__file__).parents[1]
IMPORTED = (
    *("numpy", "torch", "torch._dynamo", "torchvision", "matplotlib.figure", "faiss", "optuna"),
    *("ray.train.torch", "mlflow.store.tracking.sqlalchemy_store", "rich.console", "rich.table"),
    *("dmltune.search.tuning", "dmltune.search.api", "dmltune.check.api", "dmltune.train.api"),
    *("dmltune.evaluation", "dmltune.cli.search", "dmltune.cli.check", "dmltune.cli.reproduce"),
    *("dmltune.cli.table", "dmltune.cli.train", "dmltune.cli.evaluate"),
)
_LONGEST = 1 << 20  # bytes of a request


class ForkedProcess:
    """A command, with the part of `subprocess.Popen` that the tests use."""

    def __init__(
        self,
        words: Sequence[str],
        folder: Path,
        environment: dict[str, str],
        stdout: IO[str],
        stderr: IO[str],
    ) -> None:
        self.returncode: int | None = None
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = {"words": list(words), "folder": str(folder), "environment": dict(environment)}
        try:
            self._server.connect(os.environ[ADDRESS])
            self._server.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LONGEST)
            socket.send_fds(self._server, [json.dumps(request).encode()], [stdout.fileno(), stderr.fileno()])
            self.pid = int(self._server.recv(64))
        except BaseException:
            self._server.close()
            raise

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._server], [], [], 0)[0]:
            self._take()
        return self.returncode

    def wait(self, timeout: float) -> int:
        """Return the exit code; negative: the number of the signal that ended the process."""
        if self.returncode is None:
            if not select.select([self._server], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
            self._take()
        assert self.returncode is not None
        return self.returncode

    def _take(self) -> None:
        answer = self._server.recv(64)
        assert answer, "the fork server has ended"
        self.returncode = int(answer)
        self._server.close()

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run_command(
    words: Sequence[str], folder: Path, environment: dict[str, str], seconds: float
) -> subprocess.CompletedProcess[str]:
    """Run `dmltune` with these words to its end."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = ForkedProcess(words, folder, environment, out, errors)
        try:
            code = process.wait(seconds)
        finally:
            if process.returncode is None:
                process.kill()
        out.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(["dmltune", *words], code, out.read(), errors.read())


@contextlib.contextmanager
def serving() -> Iterator[None]:
    """Serve this process and its children; the server ends with the block, or with this process."""
    folder = tempfile.mkdtemp(prefix="dmlf-")  # short, as paths of sockets must be
    os.environ[ADDRESS] = f"{folder}/s"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(os.environ[ADDRESS])
        listening.listen(100)
        server = subprocess.Popen(
            [sys.executable, "-m", "support.fork_server", str(listening.fileno())],
            cwd=TESTS, stdin=subprocess.PIPE, start_new_session=True, pass_fds=[listening.fileno()],
        )  # fmt: skip
    try:
        yield
    finally:
        assert server.stdin is not None
        server.stdin.close()
        server.wait(30)
        os.environ.pop(ADDRESS)
        shutil.rmtree(folder, ignore_errors=True)


def _serve(listening: socket.socket) -> dict[str, Any] | None:
    """Answer requests until standard input is closed. Returns in each command's process, with its request."""
    watched = select.poll()
    watched.register(0, select.POLLHUP | select.POLLIN)
    watched.register(listening, select.POLLIN)
    running: dict[int, tuple[int, socket.socket]] = {}  # descriptor of the process → its number, its client
    while True:
        for descriptor, _ in watched.poll():
            if descriptor == 0:
                return None
            if descriptor == listening.fileno():
                client, _ = listening.accept()
                text, streams, _, _ = socket.recv_fds(client, _LONGEST, 2)
                if not text:
                    continue
                _import()
                pid = os.fork()
                if not pid:
                    for connection in (listening, client, *(other for _, other in running.values())):
                        connection.close()
                    for process in running:
                        os.close(process)
                    return {**json.loads(text), "streams": streams}
                for stream in streams:
                    os.close(stream)
                client.send(str(pid).encode())
                process = os.pidfd_open(pid)
                running[process] = pid, client
                watched.register(process, select.POLLIN)
            else:
                watched.unregister(descriptor)
                pid, client = running.pop(descriptor)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                os.close(descriptor)
                with client, contextlib.suppress(OSError):  # the test may have ended
                    client.send(str(code).encode())


def _import() -> None:
    """Import what commands need; nothing here may start a thread of Python."""
    if "mlflow" in sys.modules:
        return
    import gc

    for name in IMPORTED:
        with contextlib.suppress(Exception):  # the command that needs it shows the error
            importlib.import_module(name)
    from support.mlflow_tables import copy_the_tables, tables

    copy_the_tables()
    tables()
    gc.freeze()  # collections in the commands then copy no page of this memory


def _become(request: dict[str, Any]) -> None:
    """Turn this process into that of the command."""
    import numpy

    os.setsid()
    os.umask(0)  # what is private is so by itself
    for number, stream in zip((1, 2), request["streams"], strict=True):
        os.dup2(stream, number)
        os.close(stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None
    random.seed()
    numpy.random.seed()
    time.tzset()


def _leave(code: int) -> NoReturn:
    """End as Python does, without taking the modules apart: they are shared with the server."""
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError, ValueError):  # `guarded` has told of a closed output
        sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main() -> None:
    from support.disk import never_wait_for_the_disk

    never_wait_for_the_disk()
    request = _serve(socket.socket(fileno=int(sys.argv[1])))
    if request is None:
        os._exit(0)
    _become(request)
    import dmltune.__main__
    from dmltune.cli import main as command

    # what `python -m dmltune` has
    sys.argv = [str(dmltune.__main__.__file__), *request["words"]]
    sys.path[0] = request["folder"]
    try:
        code = command()
    except BaseException:
        traceback.print_exc()
        code = 1
    _leave(code)


if __name__ == "__main__":
    main()
