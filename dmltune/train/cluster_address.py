"""Does a Ray cluster answer? Asked before Ray is started: its own client waits for minutes."""

from __future__ import annotations

import re
import socket
from urllib.parse import urlsplit

from dmltune.errors import UserError, readable
from dmltune.store import without_password

SECONDS = 5.0
_HOST_PORT = re.compile(r"[A-Za-z0-9._-]+:\d{1,5}|\[[0-9A-Fa-f:]+\]:\d{1,5}")
_REMEDY = "Check --address (or RAY_ADDRESS), or leave it out to run on this machine."


def require_cluster(address: str | None) -> None:
    """Raise a UserError unless `address` is None, `auto`, `local`, or a port that accepts connections."""
    if address in (None, "", "auto", "local"):
        return
    host, port = parse_address(address)
    try:
        socket.create_connection((host, port), timeout=SECONDS).close()
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise UserError(
            f"no Ray cluster answers at {without_password(address)} ({reason}). {_REMEDY}"
        ) from None


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
