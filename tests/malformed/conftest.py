"""A copy of a store with one finished search, and servers that misbehave."""

from __future__ import annotations

import contextlib
import importlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from malformed.odd_mlflow import odd_mlflow
from support.finished_search import finished_search

ANSWERS = {
    "fails": b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno",
    "noise": b"\x07\xff\xfe this is no HTTP\r\n\r\n",
    "mute": b"",
}
ENDLESS = "…".encode()


def _http(status: str, body: bytes, kind: str = "application/json", more: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nConnection: close\r\n{more}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


OK = _http("200 OK", b"OK", "text/plain")
WRONG_ANSWERS = {
    "html": _http("200 OK", b"<!doctype html><title>Sign in</title>", "text/html"),
    "json": _http("200 OK", b'{"experiments": 5, "x": 1}'),
    "list": _http("200 OK", b"[1, 2]"),
    "number": _http("200 OK", b"9" * 9000),
    "deep": _http("200 OK", b"[" * 200_000),
    "too-large": _http("413 Content Too Large", b"too large", "text/plain"),
    "busy": _http("429 Too Many Requests", b"{}", more="Retry-After: 3600\r\n"),
    "away": _http("503 Service Unavailable", b"{}", more="Retry-After: 3600\r\n"),
    "loop": _http("302 Found", b"", more="Location: /health\r\n"),
    "endless": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + ENDLESS,
    "short": b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{",
    "no-length": b"HTTP/1.1 200 OK\r\nContent-Length: many\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
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
        for kind in ("sick", "all"):
            for name, answer in WRONG_ANSWERS.items():
                listener = stack.enter_context(socket.socket())
                ports[f"{kind}-{name}"] = str(_port_of(listener))
                listener.listen(50)
                health = OK if kind == "sick" else answer
                threading.Thread(target=_serve_wrongly, args=(listener, health, answer), daemon=True).start()
        ports["odd"] = str(stack.enter_context(odd_mlflow()))
        ports["locked"] = str(stack.enter_context(_locked_cluster()))
        yield ports


@contextlib.contextmanager
def _locked_cluster() -> Iterator[int]:
    """The port of a gRPC server that wants a token, as those of Ray do."""
    import grpc

    class Locked(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, details: Any) -> Any:
            def refuse(request: bytes, context: Any) -> bytes:
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "InvalidAuthToken")
                raise AssertionError

            return grpc.unary_unary_rpc_method_handler(refuse)

    server = grpc.server(ThreadPoolExecutor(2), handlers=[Locked()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(0).wait(5)


def _serve_wrongly(listener: socket.socket, health: bytes, answer: bytes) -> None:
    """Answer each request in a thread; an answer that ends with `…` goes on without end."""
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_answer, args=(connection, health, answer), daemon=True).start()


def _answer(connection: socket.socket, health: bytes, answer: bytes) -> None:
    with connection, contextlib.suppress(OSError):
        connection.settimeout(5)
        asked = connection.recv(65536)
        text = health if b"/health" in asked.split(b"\r\n", 1)[0] else answer
        connection.sendall(text.removesuffix(ENDLESS))
        while text.endswith(ENDLESS):
            connection.sendall(b"x" * 65536)


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
