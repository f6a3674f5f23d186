"""Download and verify a file; an interrupted download is continued.

The bytes so far are in NAME.part, and NAME.part.tag has their version (ETag or Last-Modified): only that
version is continued (If-Range). urllib takes HTTP proxies from the environment.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import ipaddress
import re
import socket
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from dmltune.data.files import amount, open_regular, user_errors
from dmltune.errors import UserError

PIECE = 2**16
TIMEOUT = 30.0  # seconds without a byte
RETRIES = 5  # attempts in a row without a new byte
TRANSIENT = (408, 425, 429, 500, 502, 503, 504)  # HTTP errors that may pass
Progress = Callable[[int, int], None]  # bytes done, all bytes or 0 when not known


class FetchError(UserError):
    """A file cannot be fetched; `reason` says why, without the remedy for data sets."""

    def __init__(self, reason: str, partial: str) -> None:
        remedy = f"try again later{partial}, or fetch it by other means and name it with --archive"
        super().__init__(f"{reason}; {remedy}.")
        self.reason = reason


def download(
    url: str,
    file: Path,
    checksum: str = "",
    size: int | None = None,
    progress: Progress | None = None,
    *,
    pause: float = 1.0,
) -> None:
    """Download `url` as `file`, which appears when its size and `checksum` are right.

    A checksum is "md5:…" or "sha256:…" with all or the first of its digits. `pause` is the seconds before the
    second attempt; each further one waits twice as long.
    """
    _require_https(url)
    part, tag = _part(file), _tag(file)
    with user_errors(f"{file} cannot be written"):
        file.parent.mkdir(parents=True, exist_ok=True)
    opener = urllib.request.build_opener(_Redirects)
    failures, most = 0, arrived(file)
    while not (size is not None and checksum and arrived(file) == size):
        try:
            _fetch(opener, url, file, size, progress)
            break
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, urllib.error.HTTPError):
                error.close()
            reached = arrived(file) > most
            most = max(most, arrived(file))
            failures = 1 if reached else failures + 1
            if failures > RETRIES or not _is_transient(error, most > 0):
                partial = f" (it continues after {amount(most)})" if most else ""
                raise FetchError(f"{url} cannot be fetched ({_reason(error)})", partial) from error
            time.sleep(pause * 2 ** (failures - 1))
    try:
        verify_file(part, checksum, size, progress, source=url)
    except UserError:
        part.unlink()  # a wrong file must not be continued
        raise
    finally:
        if not part.exists():
            tag.unlink(missing_ok=True)
    with user_errors(f"{file} cannot be written"):
        part.rename(file)
    tag.unlink(missing_ok=True)


def verify_file(
    file: Path, checksum: str, size: int | None = None, progress: Progress | None = None, *, source: str = ""
) -> None:
    """Require that `file`, from `source`, has the given size and checksum."""
    with user_errors(f"{file} cannot be read"):
        length = file.stat().st_size
        if size is not None and length != size:
            raise UserError(
                f"{source or file} must have {size:,} bytes{checksum and f' and the checksum {checksum}'};"
                f" got {length:,} bytes. It is incomplete or another file: fetch it again."
            )
        if not checksum:
            return
        kind, _, published = checksum.partition(":")
        digest, done = hashlib.new(kind, usedforsecurity=False), 0
        with open_regular(file, "rb") as stream:
            while piece := stream.read(2**20):
                digest.update(piece)
                done += len(piece)
                if progress:
                    progress(done, length)
    if not (published and digest.hexdigest().startswith(published)):
        raise UserError(
            f"{source or file} must have the checksum {kind} {published}; got {digest.hexdigest()}. It is"
            " damaged or another file: fetch it again."
        )


def arrived(file: Path) -> int:
    """Return the bytes of `file` that an earlier attempt has left."""
    with contextlib.suppress(OSError):
        return _part(file).stat().st_size
    return 0


def _fetch(
    opener: urllib.request.OpenerDirector, url: str, file: Path, size: int | None, progress: Progress | None
) -> None:
    """Try once to fetch the rest of the file. An interruption is an OSError."""
    part, tag = _part(file), _tag(file)
    have = arrived(file) if tag.is_file() else 0
    headers = {"User-Agent": "dmltune", "Accept-Encoding": "identity"}
    if have:
        headers |= {"Range": f"bytes={have}-", "If-Range": tag.read_text(encoding="latin-1")}
    try:
        answer = opener.open(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # no such range: the part is complete, or of another version
            complete = error.headers.get("Content-Range") == f"bytes */{have}"
            error.close()
            if complete:
                return
            tag.unlink(missing_ok=True)
            raise ConnectionResetError("the file has changed") from error
        raise
    with answer:
        start = 0  # of the bytes in this answer
        if answer.status == 206:
            sent = re.match(r"bytes (\d+)-", answer.headers.get("Content-Range", ""))
            if not sent or int(sent[1]) != have:
                tag.unlink(missing_ok=True)  # the next attempt starts at 0
                raise http.client.HTTPException("the server sent another range than the requested one")
            start = have
        length = answer.headers.get("Content-Length", "")
        total = start + int(length) if length.isdigit() else None
        if None not in (size, total) and size != total:
            raise UserError(
                f"{url} must have {size:,} bytes; the server has {total:,}. It is another file now: fetch it"
                " by other means and name it with --archive."
            )
        if not start:
            _write_tag(answer, tag)
        with user_errors(f"{file} cannot be written"):
            stream = open_regular(part, "ab" if start else "wb")
        with stream:
            _receive(answer, stream, start, total if total is not None else size, progress)


def _receive(answer: Any, stream: IO[bytes], done: int, total: int | None, progress: Progress | None) -> None:
    while total is None or done < total:
        piece = answer.read1(PIECE if total is None else min(PIECE, total - done))
        if not piece:
            break
        with user_errors(f"{stream.name} cannot be written"):
            stream.write(piece)
        done += len(piece)
        if progress:
            progress(done, total or 0)
    if total is not None and done < total:
        raise ConnectionResetError(f"the connection ended after {amount(done)} of {amount(total)}")


def _write_tag(answer: Any, tag: Path) -> None:
    """Store the version of the file. A weak ETag does not identify the bytes."""
    etag = answer.headers.get("ETag", "")
    version = etag if etag and not etag.startswith("W/") else answer.headers.get("Last-Modified", "")
    if version:
        with user_errors(f"{tag} cannot be written"):
            tag.write_text(version, encoding="latin-1")
    else:
        tag.unlink(missing_ok=True)


class _Redirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments: Any) -> urllib.request.Request | None:
        try:
            _require_https(arguments[-1])
        except UserError:
            arguments[1].close()
            raise
        return super().redirect_request(*arguments)


def _require_https(url: str) -> None:
    parts = urllib.parse.urlsplit(url)
    host = parts.hostname or ""
    loopback = host == "localhost"
    with contextlib.suppress(ValueError):
        loopback = loopback or ipaddress.ip_address(host).is_loopback
    if parts.scheme != "https" and not (parts.scheme == "http" and loopback):
        raise UserError(
            f"data sets are fetched by https; got {url}. Fetch it by other means and name it with --archive."
        )


def _is_transient(error: Exception, begun: bool) -> bool:
    """Return whether another attempt may help; not for a host that never sent a byte."""
    if isinstance(error, urllib.error.HTTPError):
        return error.code in TRANSIENT
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return False
    return begun or isinstance(cause, ConnectionResetError | http.client.HTTPException)


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"{error.code} {error.reason}"
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, socket.gaierror):
        return "no such host, or no network"
    return " ".join(f"{cause}".split())[:200] or type(cause).__name__


def _part(file: Path) -> Path:
    return file.with_name(f"{file.name}.part")


def _tag(file: Path) -> Path:
    return file.with_name(f"{file.name}.part.tag")
