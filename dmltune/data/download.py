"""A file from the network: continued where it broke off, checked before it gets its name.

What has arrived lies in NAME.part, and NAME.part.tag says of which version it is (ETag or Last-Modified):
only that version is continued (If-Range). Proxies come from the environment, as urllib reads them.
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
from typing import IO, Any, TypeVar

from dmltune.data.archives import amount
from dmltune.errors import UserError

T = TypeVar("T")
PIECE = 2**16
TIMEOUT = 30.0  # seconds without a byte
RETRIES = 5  # in a row, without a byte more
PASSING = (408, 425, 429, 500, 502, 503, 504)  # HTTP's errors that may pass
Progress = Callable[[int, int], None]  # bytes done, bytes in all or 0 when that is not known


def download(
    url: str,
    file: Path,
    checksum: str = "",
    size: int | None = None,
    progress: Progress | None = None,
    *,
    pause: float = 1.0,
) -> None:
    """`url` as `file`, which is not there before its size and `checksum` ("md5:…", "sha256:…") are right.

    `pause`: seconds before the second attempt; every further one waits twice as long.
    """
    _allowed(url)
    part, tag = _part(file), _tag(file)
    _in_place(lambda: file.parent.mkdir(parents=True, exist_ok=True), file)
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
            if failures > RETRIES or not _passing(error, most > 0):
                kept = f"; {amount(most)} of it are kept and continued" if most else ""
                raise UserError(
                    f"{url} cannot be fetched ({_reason(error)}); try again later{kept}, or fetch it by other"
                    " means and name it with --archive."
                ) from error
            time.sleep(pause * 2 ** (failures - 1))
    try:
        check(part, checksum, size, progress, of=url)
    except UserError:
        part.unlink()  # or it would be continued, and wrong for ever
        raise
    finally:
        if not part.exists():
            tag.unlink(missing_ok=True)
    _in_place(lambda: part.rename(file), file)
    tag.unlink(missing_ok=True)


def check(
    file: Path, checksum: str, size: int | None = None, progress: Progress | None = None, *, of: str = ""
) -> None:
    """`file` (as it came from `of`) has the published size and checksum, as far as these are given."""
    try:
        length = file.stat().st_size
        if size is not None and length != size:
            raise UserError(
                f"{of or file} must have {size:,} bytes{checksum and f' and the checksum {checksum}'}; got"
                f" {length:,} bytes. It is torn or another file: fetch it again."
            )
        if not checksum:
            return
        kind, _, published = checksum.partition(":")
        digest, done = hashlib.new(kind, usedforsecurity=False), 0
        with file.open("rb") as stream:
            while piece := stream.read(2**20):
                digest.update(piece)
                done += len(piece)
                if progress:
                    progress(done, length)
    except OSError as error:
        raise UserError(f"{file} cannot be read ({error.strerror}); put that right first.") from error
    if digest.hexdigest() != published:
        raise UserError(
            f"{of or file} must have the checksum {kind} {published}; got {digest.hexdigest()}. It is damaged"
            " or another file: fetch it again."
        )


def arrived(file: Path) -> int:
    """Bytes of `file` that an earlier attempt has left."""
    with contextlib.suppress(OSError):
        return _part(file).stat().st_size
    return 0


def _fetch(
    opener: urllib.request.OpenerDirector, url: str, file: Path, size: int | None, progress: Progress | None
) -> None:
    """One attempt: from where the last one broke off to the end. Breaking off is an OSError."""
    part, tag = _part(file), _tag(file)
    have = arrived(file) if tag.is_file() else 0
    headers = {"User-Agent": "dmltune", "Accept-Encoding": "identity"}
    if have:
        headers |= {"Range": f"bytes={have}-", "If-Range": tag.read_text(encoding="latin-1")}
    try:
        answer = opener.open(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # no such range: complete already, or of another version
            complete = error.headers.get("Content-Range") == f"bytes */{have}"
            error.close()
            if complete:
                return
            tag.unlink(missing_ok=True)
            raise ConnectionResetError("the file has changed") from error
        raise
    with answer:
        start = _start(answer, have, tag)
        length = answer.headers.get("Content-Length", "")
        total = start + int(length) if length.isdigit() else None
        if None not in (size, total) and size != total:
            raise UserError(
                f"{url} must have {size:,} bytes; the server has {total:,}. It is another file now: fetch it"
                " by other means and name it with --archive."
            )
        if not start:
            _remember(answer, tag)
        with _in_place(lambda: part.open("ab" if start else "wb"), file) as stream:
            _receive(answer, stream, start, total if total is not None else size, progress)


def _receive(answer: Any, stream: IO[bytes], done: int, total: int | None, progress: Progress | None) -> None:
    while total is None or done < total:
        piece = answer.read1(PIECE if total is None else min(PIECE, total - done))
        if not piece:
            break
        try:
            stream.write(piece)
        except OSError as error:
            raise UserError(f"{stream.name} cannot be written ({error.strerror}); free some room.") from error
        done += len(piece)
        if progress:
            progress(done, total or 0)
    if total is not None and done < total:
        raise ConnectionResetError(f"the connection broke off after {amount(done)} of {amount(total)}")


def _start(answer: Any, have: int, tag: Path) -> int:
    """Where the bytes of this answer belong: behind those we have, or it is the file from its beginning."""
    if answer.status != 206:
        return 0
    found = re.match(r"bytes (\d+)-", answer.headers.get("Content-Range", ""))
    if not found or int(found[1]) != have:
        tag.unlink(missing_ok=True)  # the next attempt begins anew
        raise http.client.HTTPException("the server sent another part than it was asked for")
    return have


def _remember(answer: Any, tag: Path) -> None:
    """Which version it is. A weak ETag does not promise the same bytes."""
    etag = answer.headers.get("ETag", "")
    version = etag if etag and not etag.startswith("W/") else answer.headers.get("Last-Modified", "")
    if version:
        _in_place(lambda: tag.write_text(version, encoding="latin-1"), tag)
    else:
        tag.unlink(missing_ok=True)


class _Redirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments: Any) -> urllib.request.Request | None:
        try:
            _allowed(arguments[-1])
        except UserError:
            arguments[1].close()
            raise
        return super().redirect_request(*arguments)


def _allowed(url: str) -> None:
    parts = urllib.parse.urlsplit(url)
    host = parts.hostname or ""
    loopback = host == "localhost"
    with contextlib.suppress(ValueError):
        loopback = loopback or ipaddress.ip_address(host).is_loopback
    if parts.scheme != "https" and not (parts.scheme == "http" and loopback):
        raise UserError(
            f"data sets are fetched by https; got {url}. Fetch it by other means and name it with --archive."
        )


def _passing(error: Exception, begun: bool) -> bool:
    """Whether another attempt may help. A host from which nothing ever came is not waited for."""
    if isinstance(error, urllib.error.HTTPError):
        return error.code in PASSING
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


def _in_place(action: Callable[[], T], file: Path) -> T:
    """What is done to the disk is not tried again."""
    try:
        return action()
    except OSError as error:
        raise UserError(f"{file} cannot be written ({error.strerror}); put that right first.") from error


def _part(file: Path) -> Path:
    return file.with_name(f"{file.name}.part")


def _tag(file: Path) -> Path:
    return file.with_name(f"{file.name}.part.tag")
