"""A cluster's dashboard: who may ask it, which versions it runs, and what its nodes have."""

from __future__ import annotations

import http.client
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dmltune.errors import UserError, readable
from dmltune.store import without_password

if TYPE_CHECKING:
    from ray.job_submission import JobSubmissionClient

LOOPBACK = ("127.0.0.1", "localhost", "::1")
# Ray's own switch for "this machine only": every port listens on 127.0.0.1. --dashboard-host alone does not
# do that, the ports of GCS, raylet and metrics stay open to the network.
START_HERE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0 ray start --head"
ADDRESS = "http://127.0.0.1:8265"


@dataclass(frozen=True)
class Cluster:
    """What the dashboard says. `nodes` are the resources of each living node, in Ray's names.

    `grows` is None when it is not known whether an autoscaler adds nodes.
    """

    ray_version: str
    python_version: str
    nodes: tuple[Mapping[str, float], ...]
    grows: bool | None


def default_address() -> str:
    return os.environ.get("RAY_API_SERVER_ADDRESS") or ADDRESS


def require_dashboard_address(address: str) -> None:
    """Raise a UserError unless `address` is http://HOST:PORT and can be put into a request."""
    try:
        parts = urlsplit(address)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        http.client.HTTPConnection(parts.netloc.rpartition("@")[2])  # the port is a number
        good = good and len(address) <= 1000 and address.isprintable() and " " not in address
    except (ValueError, http.client.InvalidURL):
        good = False
    if not good:
        shown = readable(without_password(address))
        raise UserError(f"--address must be the dashboard's, such as http://head:8265; got {shown}")


def on_this_machine(address: str) -> bool:
    return urlsplit(address).hostname in LOOPBACK


def connect(address: str) -> JobSubmissionClient:
    """Return the client of the cluster at `address`; a UserError when none answers or it wants a token."""
    shown = without_password(address)
    silent = (
        f"no Ray cluster answers at {shown}. Change --address, or start one that only this machine reaches: "
        f"`{START_HERE}`."
    )
    try:
        if wants_token(address):
            # Ray reads this when it is imported, and finds the token itself.
            os.environ.setdefault("RAY_AUTH_MODE", "token")
    except urllib.error.HTTPError as error:
        raise UserError(
            f"the dashboard at {shown} answers with error {error.code}. Look at its log, then try again."
        ) from None
    except (OSError, http.client.HTTPException) as error:
        raise UserError(_tls_problem(error, shown) or silent) from None
    import logging

    from ray.exceptions import AuthenticationError
    from ray.job_submission import JobSubmissionClient

    logging.disable(logging.INFO)  # Ray's modules set their own levels and log every package they upload
    try:
        return JobSubmissionClient(address)
    except AuthenticationError:
        raise UserError(_token_problem(shown)) from None
    except (OSError, RuntimeError, ValueError):  # OSError: ConnectionError, and errors of requests
        raise UserError(silent) from None


def wants_token(address: str) -> bool:
    """Return whether the dashboard wants a token. OSError when none answers, HTTPError when it fails."""
    try:
        with urllib.request.urlopen(
            f"{address.rstrip('/')}/api/version", timeout=10, context=_certificates()
        ):
            return False
    except urllib.error.HTTPError as error:
        if error.code >= 500:
            raise
        return error.code in (401, 403)


def _certificates() -> ssl.SSLContext:
    """Trust what Ray's client (requests) trusts: a private authority is named by REQUESTS_CA_BUNDLE."""
    bundle = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE")
    if bundle and os.path.isfile(bundle):
        return ssl.create_default_context(cafile=bundle)
    return ssl.create_default_context()


def _tls_problem(error: BaseException, shown: str) -> str:
    reason = getattr(error, "reason", error)
    if not isinstance(reason, ssl.SSLError):
        return ""
    if isinstance(reason, ssl.SSLCertVerificationError):
        return (
            f"the certificate of {shown} is not trusted ({reason.verify_message}). "
            "Set REQUESTS_CA_BUNDLE to the file of its authority."
        )
    return f"{shown} does not speak TLS ({reason.reason or reason}). Write http:// in --address."


def _token_problem(shown: str) -> str:
    """Say why the token was refused: there is none, or it is another one."""
    given = os.environ.get("RAY_AUTH_TOKEN")
    path = os.environ.get("RAY_AUTH_TOKEN_PATH") or os.path.expanduser("~/.ray/auth_token")
    found = "RAY_AUTH_TOKEN" if given else path if os.path.isfile(path) else ""
    if found:
        return (
            f"the cluster at {shown} refuses the token of {found}. Put the cluster's token there: "
            "`ray get-auth-token` on its head prints it."
        )
    return (
        f"the cluster at {shown} wants a token, and there is none here. Set RAY_AUTH_TOKEN_PATH to the file "
        "that holds it, or put it into ~/.ray/auth_token (mode 600)."
    )


def cluster_of(client: JobSubmissionClient) -> Cluster | None:
    """Return what the dashboard says, or None when it does not say it (an older or a changed Ray)."""
    try:
        versions = _ask(client, "/api/v0/cluster_metadata")
        nodes = _ask(client, "/api/v0/nodes?limit=10000&detail=1")["result"]["result"]
        status = _ask(client, "/api/cluster_status").get("clusterStatus")
        return Cluster(
            str(versions["rayVersion"]),
            str(versions["pythonVersion"]),
            tuple(node["resources_total"] for node in nodes if node["state"] == "ALIVE"),
            None if status is None else autoscales(status["autoscalerReport"].get("nodeTypeMapping")),
        )
    except (KeyError, TypeError, ValueError, RuntimeError, OSError, AttributeError):
        return None


def autoscales(node_types: Mapping[str, str] | None) -> bool:
    """Return whether node types come from a configuration. A cluster without one has `node_ID` for each."""
    return any(kind != f"node_{node}" for node, kind in (node_types or {}).items())


def _ask(client: JobSubmissionClient, path: str) -> dict[str, Any]:
    response = client._do_request("GET", path)  # with the token and headers that it has
    if response.status_code != 200:
        raise RuntimeError(f"{path}: {response.status_code}")
    found: dict[str, Any] = response.json()["data"]
    return found
