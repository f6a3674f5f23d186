"""Is a tracking server or its storage away, or does it refuse what was asked? Only the first passes."""

from __future__ import annotations

import re

import requests
from mlflow.exceptions import MlflowException

from dmltune.store import without_password

# of MLflow: no connection, no answer in time, an error of the server, its database or its object store
_AWAY = frozenset({"INTERNAL_ERROR", "TEMPORARILY_UNAVAILABLE", "REQUEST_LIMIT_EXCEEDED", "IO_ERROR"})
_DATABASES = ("psycopg", "pymysql", "sqlalche.me")  # MLflow calls some errors of its database BAD_REQUEST
_STORAGES = ("botocore", "urllib3", "google", "azure")
FULL = ("disk is full", "no space left", "quota exceeded")


def is_away(error: BaseException) -> bool:
    """Return whether the same write may succeed later, with nothing changed by the user."""
    text = str(error).lower()
    if isinstance(error, MlflowException):
        if error.error_code == "BAD_REQUEST":
            return any(name in text for name in _DATABASES)
        return error.error_code in _AWAY
    if isinstance(error, requests.HTTPError):
        return error.response is None or error.response.status_code >= 500
    if isinstance(error, requests.RequestException):
        return True
    if type(error).__module__.partition(".")[0] in _STORAGES:
        status = getattr(error, "response", None) or {}
        code = (
            status.get("ResponseMetadata", {}).get("HTTPStatusCode", 503) if isinstance(status, dict) else 503
        )
        return int(code) >= 500
    return isinstance(error, ConnectionError | TimeoutError)


def reason_of(error: BaseException) -> str:
    """Return one line about an error, without passwords and without the layers around it."""
    lines = str(error).strip().splitlines() or [""]
    text = without_password_in(lines[0])
    for sign, short in (
        ("refused", "connection refused"),
        ("timeout", "no answer in time"),
        ("timed out", "no answer in time"),
        ("Connection reset", "connection reset"),
        ("Connection aborted", "connection lost"),
        ("NewConnectionError", "no connection"),
    ):
        if sign in text:
            return short
    if found := re.search(r"too many (\d+) error responses", text):
        return f"error {found[1]}"
    return text or type(error).__name__


def without_password_in(text: str) -> str:
    return " ".join(without_password(word) if "://" in word else word for word in text.split())
