"""Unpack archives that are not trusted, completely or not at all.

Links, devices, names that lead outside, names used twice, encrypted files and more than the limits allow are
refused in one line. Owners, modes and times are not restored. An archive in an archive stays packed.
"""

from __future__ import annotations

import bz2
import contextlib
import functools
import gzip
import lzma
import os
import re
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from dmltune.data.files import amount, open_regular, user_errors
from dmltune.errors import UserError

PIECE = 2**18  # bytes read at once
TAR_BLOCK = 512
DEEPEST = 32  # nested folders
ENCRYPTED = "encrypted"
REMEDY = "fetch it from its official site, or inspect it and unpack it by hand."
UNPACKERS: tuple[tuple[bytes, Callable[[Any], Any]], ...] = (
    (b"\x1f\x8b", gzip.open),
    (b"BZh", bz2.open),
    (b"\xfd7zXZ\0", lzma.open),
)
ZIP_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)
DAMAGED = (  # what the readers of the standard library raise for damaged archives
    *(tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, struct.error),
    *(EOFError, ValueError, LookupError, ArithmeticError, RuntimeError),
)
Progress = Callable[[int, int], None]  # bytes of the archive that are done, bytes of the archive


@dataclass(frozen=True)
class Limits:
    """How much an archive may hold. Lists shrink 20 times, a zip bomb 1000 times."""

    total: int = 500 * 10**9  # bytes unpacked
    ratio: int = 100  # bytes unpacked to a byte of the archive
    spare: int = 2**20  # bytes that are allowed at any ratio
    members: int = 2_000_000

    def room(self, archive_size: int) -> int:
        return min(self.total, max(self.spare, self.ratio * archive_size))


LIMITS = Limits()


class _RefusedError(Exception):
    """An archive that is not allowed. The message is the reason; the remedy."""


@dataclass(frozen=True)
class _Member:
    """A file or folder in an archive."""

    name: str
    size: int
    folder: bool
    flaw: str  # why it is not allowed: "a link"
    done: int  # bytes of the archive up to here
    open: Callable[[], IO[bytes]]


def unpack(archive: Path, into: Path, limits: Limits = LIMITS, progress: Progress | None = None) -> None:
    """Unpack `archive` into a folder. A refused archive leaves its first members there."""
    try:
        with user_errors(f"{archive} cannot be unpacked"), open_regular(archive, "rb") as raw:
            _unpack(raw, into, limits, progress)
    except _RefusedError as error:
        raise UserError(f"{archive} is refused: {error}") from error
    except (OSError, *DAMAGED) as error:
        why = " ".join(f"{error}".split())[:200] or type(error).__name__
        raise UserError(
            f"{archive} is refused: it is damaged or not an archive (.tar, .tar.gz, .tar.bz2, .tar.xz, .zip):"
            f" {why}; fetch it again."
        ) from error


def require_room(folder: Path, size: int) -> None:
    free = shutil.disk_usage(folder).free
    if size > free:
        raise UserError(
            f"{folder} must have room for {amount(size)}; it has {amount(free)}. Free some or choose another"
            " folder."
        )


def _unpack(raw: IO[bytes], into: Path, limits: Limits, progress: Progress | None) -> None:
    size = os.fstat(raw.fileno()).st_size
    room, free = limits.room(size), shutil.disk_usage(into).free
    bomb = _RefusedError(
        f"a zip bomb? It has {amount(size)} and must not unpack to more than {amount(room)}; {REMEDY}"
    )
    total = 0
    with _opened(raw, size, room, bomb, into) as (least, members):
        for count, member in enumerate(members, 1):
            total += member.size
            if max(total, least) > room:
                raise bomb
            if max(total, least) > free:
                raise _RefusedError(
                    f"it needs more than the {amount(free)} that are free; free some room first."
                )
            if count > limits.members:
                raise _RefusedError(f"it has more than {limits.members:,} members; {REMEDY}")
            _write(member, into.joinpath(*_parts(member)))
            if progress:
                progress(min(member.done, size), size)


def _parts(member: _Member) -> list[str]:
    """Return the parts of a member's path, if it may be written."""
    name, shown = member.name, f"{member.name[:100]!r}"
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or re.match("[A-Za-z]:", name):
        raise _RefusedError(f"the path of {shown} is absolute; {REMEDY}")
    if ".." in parts:
        raise _RefusedError(f"{shown} leads outside; {REMEDY}")
    if re.search(r"[\x00-\x1f\x7f\\]", name):
        raise _RefusedError(f"{shown} has a backslash or a control character; {REMEDY}")
    if len(parts) > DEEPEST or not (parts or member.folder):
        raise _RefusedError(f"{shown} has a path of {len(parts)} names, 1 to {DEEPEST} are allowed; {REMEDY}")
    if member.flaw == ENCRYPTED:
        raise _RefusedError(f"{shown} is encrypted; unpack it with its password and pack it again without.")
    if member.flaw:
        raise _RefusedError(f"{shown} is {member.flaw}; {REMEDY}")
    return parts


def _write(member: _Member, target: Path) -> None:
    try:
        (target if member.folder else target.parent).mkdir(parents=True, exist_ok=True)
        if member.folder:
            return
        with target.open("xb") as file:  # x: never over an existing file
            with member.open() as source:
                shutil.copyfileobj(source, file, PIECE)
            if file.tell() != member.size:
                raise EOFError(f"{member.name!r} ends early")
    except (FileExistsError, NotADirectoryError) as error:
        raise _RefusedError(f"{member.name!r} is in it twice; {REMEDY}") from error


@contextlib.contextmanager
def _opened(
    raw: IO[bytes], size: int, room: int, bomb: _RefusedError, into: Path
) -> Iterator[tuple[int, Iterator[_Member]]]:
    """Yield a lower bound of the unpacked bytes, and the members in the order of unpacking.

    `size` is that of the archive; a tar file is not read beyond `room` unpacked bytes.
    """
    head = raw.read(16)
    raw.seek(0)
    if head.startswith(b"PK"):
        with zipfile.ZipFile(raw) as packed:
            yield sum(info.file_size for info in packed.infolist()), _zip_members(packed)
        return
    if head.lstrip().startswith(b"<"):
        raise _RefusedError("it is a web page; fetch the file that the page links to.")
    unpacker = next((opener for magic, opener in UNPACKERS if head.startswith(magic)), None)
    with contextlib.ExitStack() as stack:
        stream = stack.enter_context(unpacker(raw)) if unpacker else raw
        guarded = _Guarded(stream, room, bomb)
        tar = stack.enter_context(tarfile.open(fileobj=cast(Any, guarded), mode="r:"))
        yield size, _tar_members(tar, guarded, raw, into)


def _zip_members(packed: zipfile.ZipFile) -> Iterator[_Member]:
    done = 0
    for info in packed.infolist():
        mode = info.external_attr >> 16
        flaw = ""
        if info.flag_bits & 0x41:
            flaw = ENCRYPTED
        elif stat.S_ISLNK(mode):
            flaw = "a link"
        elif stat.S_IFMT(mode) in (stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFSOCK):
            flaw = "a device"
        elif info.compress_type not in ZIP_METHODS:
            flaw = f"compressed by a method that is not supported ({info.compress_type})"
        done += info.compress_size
        folder = info.is_dir() or stat.S_ISDIR(mode)
        yield _Member(info.filename, info.file_size, folder, flaw, done, functools.partial(packed.open, info))


def _tar_members(tar: tarfile.TarFile, guarded: _Guarded, raw: IO[bytes], into: Path) -> Iterator[_Member]:
    while (info := tar.next()) is not None:
        if info.size < 0:
            raise tarfile.ReadError(f"{info.name!r} has {info.size} bytes")
        opening = cast(Callable[[], IO[bytes]], functools.partial(tar.extractfile, info))
        yield _Member(info.name, info.size, info.isdir(), _tar_flaw(info, into), raw.tell(), opening)
        cast(Any, tar).members.clear()  # or tarfile collects all of them
    guarded.finish()


def _tar_flaw(info: tarfile.TarInfo, into: Path) -> str:
    if info.issym() or info.islnk():
        return "a link"
    if info.issparse():
        return "a file with gaps"
    if not (info.isreg() or info.isdir()):
        return "a device"
    try:
        tarfile.data_filter(info, str(into))
    except tarfile.FilterError:
        return "refused by tarfile's data filter"
    return ""


class _Guarded:
    """A stream for tarfile that returns at most PIECE bytes at once and none after `room`.

    tarfile reads the extension of a header at once, whatever size it claims, and unpacks what it skips.
    """

    def __init__(self, stream: IO[bytes], room: int, bomb: _RefusedError) -> None:
        self.stream, self.room, self.bomb = stream, room, bomb
        self.last = b""

    def tell(self) -> int:
        return self.stream.tell()

    def seek(self, offset: int, whence: int = 0) -> int:
        if offset > self.room:
            raise self.bomb
        return self.stream.seek(offset, whence)

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= PIECE:
            raise tarfile.ReadError(f"a header of {size} bytes")
        self.last = self.stream.read(size)
        if self.stream.tell() > self.room:
            raise self.bomb
        return self.last

    def finish(self) -> None:
        """Require the block of zeros that ends a tar file, and read to the checksum after it.

        tarfile accepts a truncated header as the end.
        """
        if self.last != bytes(TAR_BLOCK):
            raise tarfile.ReadError("it is truncated")
        while self.read(PIECE):
            pass
