"""Does a tracking server answer? Asked once, within seconds: MLflow's own client retries for minutes."""

from __future__ import annotations

import contextlib
import http.client
from pathlib import Path
from urllib.parse import urlsplit

from dmltune.errors import UserError
from dmltune.store import without_password

SECONDS = 5.0
SCHEMES = ("http", "https", "sqlite", "postgresql", "mysql", "mssql", "file", "databricks")


def require_answer(uri: str) -> None:
    """Raise a UserError unless `uri` is an address MLflow understands and a server there answers."""
    shown, remedy = (
        without_password(uri),
        "Check MLFLOW_TRACKING_URI, or unset it to use the store's own database.",
    )
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise UserError(f"MLFLOW_TRACKING_URI must be an address; got {shown}. {remedy}") from None
    scheme = parts.scheme.partition("+")[0]
    if scheme not in SCHEMES and "://" in uri:
        raise UserError(f"MLFLOW_TRACKING_URI must begin with {', '.join(SCHEMES)}; got {shown}. {remedy}")
    if scheme == "sqlite":
        _require_file(Path(uri.partition("://")[2][1:]), shown, remedy)
    if scheme not in ("http", "https"):
        return
    if not host:
        raise UserError(f"MLFLOW_TRACKING_URI must name a host; got {shown}. {remedy}")
    connect = http.client.HTTPSConnection if scheme == "https" else http.client.HTTPConnection
    try:
        with contextlib.closing(connect(host, port, timeout=SECONDS)) as connection:
            connection.request("GET", f"{parts.path.rstrip('/')}/health")
            status = connection.getresponse().status
    except (TimeoutError, OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise UserError(f"no tracking server answers at {shown} ({reason}). {remedy}") from None
    if status >= 500:
        raise UserError(
            f"the tracking server at {shown} answers with error {status}. Look at its log, then try again."
        )


def _require_file(path: Path, shown: str, remedy: str) -> None:
    """Raise a UserError when `path` cannot be an SQLite database. MLflow would retry for minutes."""
    if (path.exists() and not path.is_file()) or not path.absolute().parent.is_dir():
        raise UserError(f"the SQLite database {shown} must be a file in an existing folder. {remedy}")
