"""Files at an address: `s3://bucket/path`, `gs://bucket/path` or `file:///folder`, through pyarrow.

Credentials, region and endpoint come from the environment alone (AWS_ACCESS_KEY_ID, AWS_REGION,
AWS_ENDPOINT_URL, GOOGLE_APPLICATION_CREDENTIALS, …), so an address holds no secret.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from dmltune.errors import UserError, parse_json, readable
from dmltune.storage.transport import CHUNK, reason_of, require_name

T = TypeVar("T")
SCHEMES = ("s3", "gs", "file")
_ADDRESS = re.compile(
    r"(?:s3|gs)://[a-z0-9][a-z0-9._-]{1,221}(?:/[A-Za-z0-9._=+-]+)*/?|file:///[^%?#\x00-\x1f\x7f]+"
)
LARGEST = 10_000_000  # bytes of a file that is read at once
ANSWER_S = 10.0  # how long the first answer may take
REREAD_S = (0.05, 0.1, 0.2, 0.4, 0.8)  # pauses before a small file is read again
_CONNECT_S, _REQUEST_S, _ATTEMPTS = 4, 10, 2
_RETRY_GCS_S = 5  # less than ANSWER_S, so that the reason is told
_EMULATOR = "CLOUD_STORAGE_EMULATOR_ENDPOINT"  # read by pyarrow
_REMEDIES = {
    "s3": "Check the address, the credentials in the environment and AWS_ENDPOINT_URL, ",
    "gs": "Check the address and the credentials that GOOGLE_APPLICATION_CREDENTIALS names, ",
    "file": "Check the folder, ",
}
_REASONS = (  # of the SDKs, the most precise first
    r"AWS Error UNKNOWN \((HTTP status [0-9]+)\)",
    r"AWS Error ([A-Z_]+)",
    r"The underlying error message was: (.{1,200}?)(?: error_info=|, it does not|$)",
    r"with a last message of (.{1,200}?)(?: error_info=|$)",
)
Stamp = tuple[int, int]  # size, time of change in nanoseconds


def is_address(text: str) -> bool:
    """Return whether the text is meant as an address: no folder has such a path by intention."""
    return re.match(r"[^/]*://", text) is not None


def normal_address(text: str) -> str:
    """Return the address in the form that identifies it; a UserError for any other text."""
    scheme = text.partition("://")[0]
    if scheme not in SCHEMES or not _ADDRESS.fullmatch(text) or ".." in text.split("/"):
        secret = any(mark in text for mark in "@?#")
        shown = readable(f"{scheme}://…" if secret else text)
        raise UserError(
            "a store's address must be s3://BUCKET/PATH, gs://BUCKET/PATH or file:///FOLDER, without user, "
            f"password or options, which belong into the environment; got {shown}"
        )
    return text.rstrip("/")


@contextlib.contextmanager
def _as_os_errors() -> Iterator[None]:
    """Make an OSError of what pyarrow has other classes for: Google's errors can be ValueErrors."""
    from pyarrow import ArrowException

    try:
        yield
    except ArrowException as error:
        if isinstance(error, OSError):
            raise
        raise OSError(str(error)) from error


class AddressTransport:
    """Files below an address. Errors of the storage are OSErrors, which may pass."""

    def __init__(self, address: str) -> None:
        self.address = address
        scheme, _, path = address.partition("://")
        self._base = path
        self._local = scheme == "file"
        self._fs: Any = _file_system(scheme)

    def require_access(self, write: bool = True) -> None:
        """Raise a UserError unless the address answers in time, and files can be written there."""
        probe = f".probe-{secrets.token_hex(8)}"

        def look() -> None:
            self._require_bucket()
            if write:
                self.write(probe, b"probe")
                self.remove(probe)

        try:
            within(ANSWER_S, look)
        except UserError:
            raise
        except Exception as error:
            raise self._unusable(_short(error)) from None

    @_as_os_errors()
    def put(self, local: Path, name: str) -> None:
        path = self._path(name)
        target = self._hidden(path) if self._local else path
        if self._local:
            self._fs.create_dir(os.path.dirname(path), recursive=True)
        with local.open("rb") as source, self._fs.open_output_stream(target) as stream:
            while chunk := source.read(CHUNK):
                stream.write(chunk)
        if self._local:
            os.replace(target, path)

    @_as_os_errors()
    def fetch(self, name: str, local: Path) -> bool:
        require_name(name)  # before a folder is made for it
        local.parent.mkdir(parents=True, exist_ok=True)
        part = local.with_name(f".{local.name}.{secrets.token_hex(8)}")
        try:
            with self._fs.open_input_stream(self._path(name)) as source, part.open("wb") as file:
                while chunk := source.read(CHUNK):
                    file.write(chunk)
            os.replace(part, local)
        except FileNotFoundError:
            return False
        finally:
            part.unlink(missing_ok=True)
        return True

    def names(self, prefix: str) -> list[str]:
        return sorted(self.stamps(prefix))

    @_as_os_errors()
    def stamps(self, prefix: str = "") -> dict[str, Stamp]:
        """Return name → what tells one version from another, of every file below `prefix`."""
        from pyarrow.fs import FileSelector, FileType

        folder = self._path(prefix) if prefix else self._base
        found = self._fs.get_file_info(FileSelector(folder, recursive=True, allow_not_found=True))
        files = (info for info in found if info.type == FileType.File)
        names = {info.path[len(self._base) + 1 :]: (info.size, info.mtime_ns or 0) for info in files}
        return {name: stamp for name, stamp in names.items() if not name.rpartition("/")[2].startswith(".")}

    @_as_os_errors()
    def stamp(self, name: str) -> Stamp | None:
        from pyarrow.fs import FileType

        info = self._fs.get_file_info(self._path(name))
        return (info.size, info.mtime_ns or 0) if info.type == FileType.File else None

    @_as_os_errors()
    def read(self, name: str) -> bytes | None:
        """Return the content of a small file; None when there is none."""
        try:
            with self._fs.open_input_stream(self._path(name)) as stream:
                content: bytes = stream.read(LARGEST + 1)
        except FileNotFoundError:
            return None
        if len(content) > LARGEST:
            raise UserError(f"{name} at {self.address} is damaged: it has more than {LARGEST:,} bytes.")
        return content

    def read_json(self, name: str) -> dict[str, Any]:
        """Return the mapping in a small file, an empty one without a file; a ValueError for other content.

        An object that is replaced between the question for its size and the reading arrives cut off, or with
        a part missing. So what cannot be parsed is read again.
        """
        for pause in REREAD_S:
            with contextlib.suppress(ValueError):
                return self._mapping(name)
            time.sleep(pause)
        return self._mapping(name)

    def _mapping(self, name: str) -> dict[str, Any]:
        content = self.read(name)
        tree = {} if content is None else parse_json(content)
        if not isinstance(tree, dict):
            raise ValueError(f"{name} holds no mapping")
        return tree

    @_as_os_errors()
    def write(self, name: str, content: bytes) -> None:
        path = self._path(name)
        target = self._hidden(path) if self._local else path
        if self._local:
            self._fs.create_dir(os.path.dirname(path), recursive=True)
        with self._fs.open_output_stream(target) as stream:
            stream.write(content)
        if self._local:
            os.replace(target, path)

    @_as_os_errors()
    def remove(self, name: str) -> None:
        """Delete a file, or all files below a folder. Nothing is left to do when there is none."""
        path = self._path(name)
        with contextlib.suppress(FileNotFoundError):
            if self.stamp(name) is not None:
                self._fs.delete_file(path)
            elif self._local or self.stamps(name):  # Google's has another error for an empty one
                self._fs.delete_dir(path)

    def _path(self, name: str) -> str:
        return f"{self._base}/{require_name(name)}"

    @staticmethod
    def _hidden(path: str) -> str:
        folder, name = os.path.split(path)
        return f"{folder}/.{name}.{secrets.token_hex(8)}"

    @_as_os_errors()
    def _require_bucket(self) -> None:
        from pyarrow.fs import FileType

        if self._local:
            return
        bucket = self._base.partition("/")[0]
        if self._fs.get_file_info(bucket).type == FileType.NotFound:
            raise self._unusable(f"there is no bucket {bucket}")

    def _unusable(self, reason: str) -> UserError:
        remedy = _REMEDIES[self.address.partition("://")[0]] + "or choose another --store."
        return UserError(f"the store {self.address} cannot be used: {reason}. {remedy}")


@lru_cache(maxsize=4)
def _file_system(scheme: str) -> Any:
    from pyarrow import fs

    if scheme == "file":
        return fs.LocalFileSystem()
    if scheme == "gs":
        return fs.GcsFileSystem(
            anonymous=bool(os.environ.get(_EMULATOR)),  # as Google's own clients do
            retry_time_limit=timedelta(seconds=_RETRY_GCS_S),
        )
    endpoint = urlsplit(os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or "")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    return fs.S3FileSystem(
        region=region or ("us-east-1" if endpoint.netloc else None),
        scheme=endpoint.scheme or None,
        endpoint_override=endpoint.netloc or None,
        connect_timeout=_CONNECT_S,
        request_timeout=_REQUEST_S,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
        tls_ca_file_path=os.environ.get("AWS_CA_BUNDLE") or None,
    )


def within(seconds: float, action: Callable[[], T]) -> T:
    """Return what `action` returns; a TimeoutError when it takes longer."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(action())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise TimeoutError(f"no answer for {seconds:.0f} s")
    return results[0]


def _short(error: Exception) -> str:
    """Return the reason without the long tail of the SDK's messages."""
    text = " ".join(str(error).split())
    known = next((found[1] for reason in _REASONS if (found := re.search(reason, text))), None)
    if known is None:
        return reason_of(error)[:200]
    return known.lower().replace("_", " ") if known.isupper() else known
