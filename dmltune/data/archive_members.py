"""Read the members of an archive that is not trusted; `archives` has the rules."""

from __future__ import annotations

import bz2
import contextlib
import functools
import gzip
import lzma
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

PIECE = 2**18  # bytes read at once
TAR_BLOCK = 512
ENCRYPTED = "encrypted"
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


class WebPageError(Exception):
    """The file is a web page."""


class RoomError(Exception):
    """The archive unpacks to more than its limit."""


@dataclass(frozen=True)
class ArchiveMember:
    """A file or folder in an archive."""

    name: str
    size: int
    folder: bool
    flaw: str  # why it is not allowed: "a link"
    done: int  # bytes of the archive up to here
    open: Callable[[], IO[bytes]]


@contextlib.contextmanager
def opened(raw: IO[bytes], size: int, room: int, into: Path) -> Iterator[tuple[int, Iterator[ArchiveMember]]]:
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
        raise WebPageError
    unpacker = next((opener for magic, opener in UNPACKERS if head.startswith(magic)), None)
    with contextlib.ExitStack() as stack:
        stream = stack.enter_context(unpacker(raw)) if unpacker else raw
        guarded = _Guarded(stream, room)
        tar = stack.enter_context(tarfile.open(fileobj=cast(Any, guarded), mode="r:"))
        yield size, _tar_members(tar, guarded, raw, into)


def _zip_members(packed: zipfile.ZipFile) -> Iterator[ArchiveMember]:
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
        yield ArchiveMember(
            info.filename, info.file_size, folder, flaw, done, functools.partial(packed.open, info)
        )


def _tar_members(
    tar: tarfile.TarFile, guarded: _Guarded, raw: IO[bytes], into: Path
) -> Iterator[ArchiveMember]:
    while (info := tar.next()) is not None:
        if info.size < 0:
            raise tarfile.ReadError(f"{info.name!r} has {info.size} bytes")
        opening = cast(Callable[[], IO[bytes]], functools.partial(tar.extractfile, info))
        yield ArchiveMember(info.name, info.size, info.isdir(), _tar_flaw(info, into), raw.tell(), opening)
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

    def __init__(self, stream: IO[bytes], room: int) -> None:
        self.stream, self.room = stream, room
        self.last = b""

    def tell(self) -> int:
        return self.stream.tell()

    def seek(self, offset: int, whence: int = 0) -> int:
        if offset > self.room:
            raise RoomError
        return self.stream.seek(offset, whence)

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= PIECE:
            raise tarfile.ReadError(f"a header of {size} bytes")
        self.last = self.stream.read(size)
        if self.stream.tell() > self.room:
            raise RoomError
        return self.last

    def finish(self) -> None:
        """Require the block of zeros that ends a tar file, and read to the checksum after it.

        tarfile accepts a truncated header as the end.
        """
        if self.last != bytes(TAR_BLOCK):
            raise tarfile.ReadError("it is truncated")
        while self.read(PIECE):
            pass
