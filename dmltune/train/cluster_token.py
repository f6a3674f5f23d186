"""Does the cluster let us in? Asked before Ray is started: its client tries a wrong token for 20 seconds, and
then says that no cluster answers.

Clusters of Ray 2.61 and later want a token by default. Ray takes it from RAY_AUTH_TOKEN, from the file that
RAY_AUTH_TOKEN_PATH names, or from ~/.ray/auth_token.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from dmltune.errors import UserError, readable

SECONDS = 5.0
MODE, TOKEN, PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
# a question without consequences to each of the two servers that an address may name
_QUESTIONS = {
    False: "/ray.rpc.NodeInfoGcsService/GetClusterId",
    True: "/ray.rpc.RayletDriver/ClusterInfo",
}


def require_token(address: str) -> None:
    """Raise a UserError when the cluster at `host:port` or `ray://host:port` wants another token or any."""
    if os.environ.get("RAY_USE_TLS", "0") not in ("", "0"):
        return  # Ray's own client has the certificates, and tells what is wrong
    if not _refuses(address, ""):
        return
    token, origin = own_token()
    remedy = f"Put its token into a file that only you can read, and name it with {PATH}."
    if os.environ.get(MODE) == "disabled":
        raise UserError(f"the cluster at {address} wants a token, and {MODE} is disabled. Unset it.")
    if not token:
        raise UserError(f"the cluster at {address} wants a token, and there is none. {remedy}")
    if _refuses(address, token):
        raise UserError(f"the cluster at {address} refuses the token of {origin}. {remedy}")


def own_token() -> tuple[str, str]:
    """Return the token that Ray would send, and where it is from; ("", "") without one."""
    if token := os.environ.get(TOKEN, "").strip():
        return token, TOKEN
    named = os.environ.get(PATH)
    file = Path(named).expanduser() if named else Path("~/.ray/auth_token").expanduser()
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if token := file.read_text(encoding="utf-8").strip():
            return token, readable(str(file))
    return "", ""


def _refuses(address: str, token: str) -> bool:
    """Return whether the server answers that it does not know the token."""
    if not (token.isascii() and token.isprintable()):
        return True  # no header may have it
    import grpc

    question = _QUESTIONS[address.startswith("ray://")]
    metadata = [("authorization", f"Bearer {token}")] if token else []
    channel: Any
    with grpc.insecure_channel(address.removeprefix("ray://")) as channel:
        try:
            channel.unary_unary(question)(b"", timeout=SECONDS, metadata=metadata)
        except grpc.RpcError as error:
            refused: bool = error.code() == grpc.StatusCode.UNAUTHENTICATED
            return refused
    return False
