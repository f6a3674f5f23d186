"""Servers on 127.0.0.1 that answer wrongly or not at all."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def server(answer: bytes | None) -> Iterator[int]:
    """Yield the port of a server that gives this answer to every connection; None: it accepts and is mute."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        connections: list[socket.socket] = []

        def serve() -> None:
            with contextlib.suppress(OSError):  # the end: the listening socket is closed
                while True:
                    connection, _ = listening.accept()
                    connections.append(connection)
                    if answer is not None:
                        connection.recv(4096)
                        connection.sendall(answer)
                        connection.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(5)
            for connection in connections:
                connection.close()


def closed_port() -> int:
    """Return a port on which no server listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
    return port
