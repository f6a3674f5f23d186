"""`dmltune serve` in a thread, with small limits, and raw connections to it."""

from __future__ import annotations

import contextlib
import logging
import re
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dmltune.cli.serve import listen
from dmltune.serving import http_app, http_guard
from dmltune.serving.http_app import RequestLimits, application
from dmltune.serving.model import LoadedModel

SECONDS = 1.0  # of the limits of time here
MOST = 1_000_000  # bytes of a request
PATIENCE = 5.0


def answer_of(client: socket.socket) -> bytes:
    """Return one answer with its body, nothing when the connection is closed without one."""
    received, length = b"", None
    with contextlib.suppress(ConnectionError):
        while piece := client.recv(65536):
            received += piece
            head, end, body = received.partition(b"\r\n\r\n")
            if end and length is None:
                found = re.search(rb"(?i)content-length: (\d+)", head)
                length = int(found[1]) if found else None
            if length is not None and len(body) >= length:
                break
    return received


@dataclass(frozen=True)
class Server:
    port: int
    image: bytes
    log: Path

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def send(self, content: bytes, half_close: bool = False) -> tuple[int, bytes]:
        """Return the status of the answer, 0 for none, and its bytes."""
        with self.connect() as client:
            with contextlib.suppress(ConnectionError):
                client.sendall(content)
                if half_close:
                    client.shutdown(socket.SHUT_WR)
            received = answer_of(client)
        head = received.split(b"\r\n", 1)[0].split()
        return (int(head[1]) if len(head) > 1 and head[1].isdigit() else 0), received

    def post(self, body: bytes, kind: str = "image/png", more: str = "", host: str = "") -> tuple[int, bytes]:
        head = f"POST /embed HTTP/1.1\r\nHost: {host or f'127.0.0.1:{self.port}'}\r\nContent-Type: {kind}\r\n"
        length = f"Content-Length: {len(body)}\r\nConnection: close\r\n"
        return self.send(f"{head}{length}{more}\r\n".encode("latin-1") + body)

    def get(self, path: str = "/health", host: str = "127.0.0.1", more: str = "") -> tuple[int, bytes]:
        return self.send(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n".encode())


@contextlib.contextmanager
def attacked_server(model: LoadedModel, image: bytes, log: Path) -> Iterator[Server]:
    """Serve the model until the block ends; its log must hold no traceback then."""
    handler = logging.FileHandler(log)
    limits = RequestLimits(bytes=MOST, pixels=1_000_000, images=4)
    app = application(model, limits=limits, names=["shop.example"])
    with pytest.MonkeyPatch.context() as patch, listen("127.0.0.1", 0) as listening:
        patch.setattr(http_app, "_SECONDS", SECONDS)
        patch.setattr(http_guard, "HEADER_SECONDS", SECONDS)
        running = http_guard.server_of(app)
        logging.getLogger("uvicorn.error").addHandler(handler)
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        server = Server(listening.getsockname()[1], image, log)
        deadline = time.monotonic() + 60
        while not running.started and time.monotonic() < deadline:
            time.sleep(0.01)
        assert server.post(image)[0] == 200
        yield server
        running.should_exit = True
        thread.join(20)
        logging.getLogger("uvicorn.error").removeHandler(handler)
        handler.close()
        assert not thread.is_alive()
        assert "Traceback" not in log.read_text()
