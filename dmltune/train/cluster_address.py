"""Does a Ray cluster answer? Asked before Ray is started: its own client waits for minutes."""

from __future__ import annotations

import os
import re
import socket
from urllib.parse import urlsplit

from dmltune.errors import UserError, readable
from dmltune.store import without_password
from dmltune.train.cluster_token import require_token

SECONDS = 5.0
_SETTINGS = b"\x04"
_HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0" + _SETTINGS + b"\0\0\0\0\0"
_HOST_PORT = re.compile(r"[A-Za-z0-9._-]+:\d{1,5}|\[[0-9A-Fa-f:]+\]:\d{1,5}")
_REMEDY = "Check --address (or RAY_ADDRESS), or leave it out to run on this machine."


def require_cluster(address: str | None) -> None:
    """Raise a UserError unless `address` is None, `auto`, `local`, or a port of Ray's that lets us in."""
    if address in (None, "", "auto", "local"):
        return
    host, port = parse_address(address)
    try:
        with socket.create_connection((host, port), timeout=SECONDS) as connection:
            if os.environ.get("RAY_USE_TLS", "0") in ("", "0"):
                _require_grpc(connection)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise UserError(
            f"no Ray cluster answers at {without_password(address)} ({reason}). {_REMEDY}"
        ) from None
    require_token(address)


def _require_grpc(connection: socket.socket) -> None:
    """Raise an OSError unless the peer opens HTTP/2, which gRPC and so every port of Ray's speaks.

    Ray waits for minutes at a port that accepts connections and is mute. The first frame of an HTTP/2 server
    is SETTINGS (RFC 9113, 3.4): a length of 3 bytes, then its type.
    """
    connection.sendall(_HTTP2)
    begin = b""
    while len(begin) < 4:
        received = connection.recv(64)
        if not received:
            break
        begin += received
    if begin[3:4] != _SETTINGS:
        raise OSError(0, "what answers there is not Ray")


def is_loopback_only(address: str | None) -> bool:
    """Return whether the cluster at this address listens on 127.0.0.1 and on no other address.

    Ray's client replaces 127.0.0.1 by the machine's own address, and then waits for minutes at a port that
    is closed there.
    """
    if address in (None, "", "auto", "local"):
        return False
    host, port = parse_address(address)
    own = _own_address()
    if host not in ("127.0.0.1", "localhost") or own.startswith("127."):
        return False
    try:
        socket.create_connection((own, port), timeout=1.0).close()
    except OSError:
        return True
    return False


def _own_address() -> str:
    """Return the address of this machine as its network sees it; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address for documentation
        except OSError:  # no network
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def parse_address(address: str) -> tuple[str, int]:
    """Return host and port of `host:port` or `ray://host:port`."""
    bare = address.removeprefix("ray://")
    if _HOST_PORT.fullmatch(bare):
        parts = urlsplit(f"//{bare}")
        try:
            if parts.hostname and parts.port:
                return parts.hostname, parts.port
        except ValueError:  # the port is above 65535
            pass
    raise UserError(
        f"a Ray address must be host:port, ray://host:port or auto; "
        f"got {readable(without_password(address))}. {_REMEDY}"
    )
