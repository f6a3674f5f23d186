"""What is asked before a request reaches the application: for whom it is, who sent it, and how slowly.

A browser sends requests to 127.0.0.1 for any page that it shows. Such a page can give its own name that
address (DNS rebinding) and read the answers as its own; the header Host then has that name. So a request must
name this server by an address, by `localhost`, or by a name that was given at the start.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 10.0  # for the head of a request to arrive
CONNECTIONS = 128  # at a time; further ones are answered with 503
_HEADERS = [
    (b"content-type", b"application/json"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cache-control", b"no-store"),
]


class Guard:
    """An ASGI application around another one that refuses requests for other hosts and of other origins."""

    def __init__(self, app: Any, names: Iterable[str] = ()) -> None:
        self.app = app
        self.names = {"localhost", *(name.lower() for name in names)}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        hosts, origin = _headers(scope, b"host"), _headers(scope, b"origin")
        if len(hosts) != 1 or not self.is_own(hosts[0]):
            await _refuse(send, 421, "host", "this server has another name; --allow-host NAME adds one")
        elif origin and origin != [f"{scope['scheme']}://{hosts[0]}"]:
            await _refuse(send, 403, "origin", "pages of other origins may not ask this server")
        else:
            await self.app(scope, receive, _with_headers(send))

    def is_own(self, host: str) -> bool:
        """Return whether the value of Host is an address or one of the names, with any port."""
        try:
            parts = urlsplit(f"//{host}")
            name = parts.hostname or ""
            _ = parts.port
        except ValueError:
            return False
        if parts.netloc != host or "@" in host:
            return False
        if name in self.names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def _headers(scope: Any, wanted: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name == wanted]


def _with_headers(send: Any) -> Any:
    async def sending(message: Any) -> None:
        if message["type"] == "http.response.start":
            present = {name for name, _ in message["headers"]}
            added = [header for header in _HEADERS if header[0] not in present]
            message = {**message, "headers": [*message["headers"], *added]}
        await send(message)

    return sending


async def _refuse(send: Any, status: int, code: str, message: str) -> None:
    body = json.dumps({"error": {"code": code, "message": message}}).encode()
    headers = [*_HEADERS, (b"content-length", str(len(body)).encode()), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def server_of(app: Any) -> uvicorn.Server:
    """Return the server of the application, with limits of time and connections."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=ImpatientProtocol,
            ws="none",
            log_level="warning",
            access_log=False,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=5,
            limit_concurrency=CONNECTIONS,
            proxy_headers=False,
            server_header=False,
        )
    )


class ImpatientProtocol(H11Protocol):
    """uvicorn's HTTP/1.1, which also closes a connection whose next request does not arrive in time.

    uvicorn itself waits without end for the rest of a head. The time of a body is limited in `http_app`.
    """

    _timer: Any = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait_for_request()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _wait_for_request(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(HEADER_SECONDS, self._close_without_request)

    def _close_without_request(self) -> None:
        if (self.cycle is None or self.cycle.response_complete) and not self.transport.is_closing():
            self.transport.close()
