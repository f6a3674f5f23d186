"""A copy of a store with one finished search, and servers that misbehave."""

from __future__ import annotations

import contextlib
import importlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.finished_search import finished_search

ANSWERS = {
    "fails": b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno",
    "noise": b"\x07\xff\xfe this is no HTTP\r\n\r\n",
    "mute": b"",
}


@pytest.fixture(scope="session", autouse=True)
def _imported() -> None:
    """Import what takes seconds before a case is timed: an import that is interrupted stays broken."""
    for module in (
        "dmltune.search.api",
        "dmltune.check.api",
        "dmltune.evaluation",
        "dmltune.reproduce.figures.collage",
    ):
        importlib.import_module(module)
    for module in ("optuna", "timm", "pytorch_metric_learning.losses", "ray.job_submission", "torchvision"):
        importlib.import_module(module)


@pytest.fixture
def copy_store(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], None]:
    """Copy the store with the finished search."""
    return lambda target: finished_search(tmp_path_factory).copy(target)


@pytest.fixture(scope="session")
def servers() -> Iterator[dict[str, str]]:
    """Ports on loopback: dead (closed), fails (HTTP 500), noise (no HTTP), mute (never answers)."""
    with contextlib.ExitStack() as stack:
        ports = {"dead": str(_port_of(stack.enter_context(socket.socket())))}
        for name, answer in ANSWERS.items():
            listener = stack.enter_context(socket.socket())
            ports[name] = str(_port_of(listener))
            listener.listen(50)
            threading.Thread(target=_serve, args=(listener, answer), daemon=True).start()
        yield ports


def _port_of(unbound: socket.socket) -> int:
    unbound.bind(("127.0.0.1", 0))
    port: int = unbound.getsockname()[1]
    return port


def _serve(listener: socket.socket, answer: bytes) -> None:
    open_connections = []  # a mute server holds them
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        if not answer:
            open_connections.append(connection)
            continue
        with connection, contextlib.suppress(OSError):
            connection.settimeout(2)
            connection.recv(65536)
            connection.sendall(answer)


@pytest.fixture
def no_folder_is_left_unreadable(tmp_path: Path) -> Iterator[None]:
    """Give back the modes that a case took away, so that pytest can delete the folder."""
    yield
    for root, _, _ in os.walk(tmp_path):
        with contextlib.suppress(OSError):
            os.chmod(root, 0o700)
