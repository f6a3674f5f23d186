"""Does a tracking server answer, and is it one? Asked once, within seconds, before MLflow's own client is.

That client retries for minutes, waits two minutes for each answer, and reads an answer to its end, however
long it is.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import os
import socket
import ssl
import time
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from dmltune.errors import UserError, parse_json
from dmltune.store import without_password

SECONDS = 5.0
LONGEST = 1_000_000  # bytes of an answer to the questions here
SCHEMES = ("http", "https", "sqlite", "postgresql", "mysql", "mssql", "file", "databricks")
DATABASE_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}
_SEARCH = "/api/2.0/mlflow/experiments/search"


class _NoServerError(Exception):
    """What answers is no tracking server; the message says what it does."""


def require_answer(uri: str) -> None:
    """Raise a UserError unless `uri` is an address MLflow understands and a server there answers."""
    shown, remedy = (
        without_password(uri),
        "Check MLFLOW_TRACKING_URI, or unset it to use the store's own database.",
    )
    try:
        parts = urlsplit(uri)
        _ = parts.hostname, parts.port
    except ValueError:
        raise UserError(f"MLFLOW_TRACKING_URI must be an address; got {shown}. {remedy}") from None
    scheme = parts.scheme.partition("+")[0]
    if scheme not in SCHEMES and "://" in uri:
        raise UserError(f"MLFLOW_TRACKING_URI must begin with {', '.join(SCHEMES)}; got {shown}. {remedy}")
    if scheme == "sqlite":
        _require_file(Path(uri.partition("://")[2][1:]), shown, remedy)
    if scheme in DATABASE_PORTS and parts.hostname:
        _require_port(parts.hostname, parts.port or DATABASE_PORTS[scheme], shown, remedy)
    if scheme not in ("http", "https"):
        return
    if not parts.hostname:
        raise UserError(f"MLFLOW_TRACKING_URI must name a host; got {shown}. {remedy}")
    try:
        status, _ = _ask(parts, "GET", "/health")
        if status < 500:
            status, content = _ask(parts, "POST", _SEARCH)
            if status == 200:
                _require_experiments(content)
    except _NoServerError as error:
        raise UserError(f"what answers at {shown} is no tracking server: {error}. {remedy}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise UserError(f"no tracking server answers at {shown} ({reason}). {remedy}") from None
    if status >= 500 or status == 429:
        raise UserError(
            f"the tracking server at {shown} answers with error {status}. Look at its log, then try again."
        )


def _ask(parts: SplitResult, method: str, path: str) -> tuple[int, bytes]:
    """Return the status and the content of an answer that comes in time and is not too long."""
    deadline = time.monotonic() + SECONDS
    body = b'{"max_results": 1}' if method == "POST" else None
    headers = {"Content-Type": "application/json", **_authorisation(parts)}
    with contextlib.closing(_connection(parts)) as connection:
        connection.request(method, parts.path.rstrip("/") + path, body, headers)
        answer = connection.getresponse()
        content = b""
        while piece := answer.read1(65536):
            content += piece
            if len(content) > LONGEST:
                raise _NoServerError(f"its answer has more than {LONGEST:,} bytes")
            if time.monotonic() > deadline:
                raise TimeoutError
    if answer.status in (301, 302, 303, 307, 308):
        raise _NoServerError("it sends elsewhere")
    return answer.status, content


def _connection(parts: SplitResult) -> http.client.HTTPConnection:
    assert parts.hostname is not None
    if parts.scheme == "http":
        return http.client.HTTPConnection(parts.hostname, parts.port, timeout=SECONDS)
    return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=SECONDS, context=_tls())


def _tls() -> ssl.SSLContext:
    """Return what MLflow's own variables say of certificates."""
    variables = ("MLFLOW_TRACKING_SERVER_CERT_PATH", "REQUESTS_CA_BUNDLE")
    trusted = next((path for name in variables if (path := os.environ.get(name))), None)
    context = ssl.create_default_context(cafile=trusted)
    if os.environ.get("MLFLOW_TRACKING_INSECURE_TLS", "").lower() in ("1", "true"):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if own := os.environ.get("MLFLOW_TRACKING_CLIENT_CERT_PATH"):
        context.load_cert_chain(own)
    return context


def _authorisation(parts: SplitResult) -> dict[str, str]:
    """Return the header that MLflow's client sends."""
    user = os.environ.get("MLFLOW_TRACKING_USERNAME") or unquote(parts.username or "")
    password = os.environ.get("MLFLOW_TRACKING_PASSWORD") or unquote(parts.password or "")
    if user:
        return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}
    if token := os.environ.get("MLFLOW_TRACKING_TOKEN"):
        return {"Authorization": f"Bearer {token}"}
    return {}


def _require_experiments(content: bytes) -> None:
    """Raise a _NoServerError unless this is MLflow's list of experiments."""
    try:
        document: Any = parse_json(content)
    except ValueError:
        raise _NoServerError("its answers are no JSON") from None
    found = document.get("experiments", []) if isinstance(document, dict) else None
    known = isinstance(document, dict) and document.keys() <= {"experiments", "next_page_token"}
    if not (known and isinstance(found, list) and all(isinstance(each, dict) for each in found)):
        raise _NoServerError("its answers are not those of MLflow")


def _require_port(host: str, port: int, shown: str, remedy: str) -> None:
    """Raise a UserError unless something listens. MLflow would retry for 100 seconds."""
    try:
        socket.create_connection((host, port), timeout=SECONDS).close()
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise UserError(f"the tracking store does not answer: {shown} ({reason}). {remedy}") from None


def _require_file(path: Path, shown: str, remedy: str) -> None:
    """Raise a UserError when `path` cannot be an SQLite database. MLflow would retry for minutes."""
    if (path.exists() and not path.is_file()) or not path.absolute().parent.is_dir():
        raise UserError(f"the SQLite database {shown} must be a file in an existing folder. {remedy}")
