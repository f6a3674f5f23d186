"""Unpack archives that are not trusted, completely or not at all.

Links, devices, names that lead outside, names used twice, encrypted files and more than the limits allow are
refused in one line. Owners, modes and times are not restored. An archive in an archive stays packed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dmltune.data.archive_members import (
    DAMAGED,
    ENCRYPTED,
    PIECE,
    ArchiveMember,
    RoomError,
    WebPageError,
    opened,
)
from dmltune.data.files import amount, open_regular, user_errors
from dmltune.errors import UserError

DEEPEST = 32  # nested folders
REMEDY = "fetch it from its official site, or inspect it and unpack it by hand."
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


def unpack(archive: Path, into: Path, limits: Limits = LIMITS, progress: Progress | None = None) -> None:
    """Unpack `archive` into a folder. A refused archive leaves its first members there."""
    with _user_errors(archive), open_regular(archive, "rb") as raw:
        size = os.fstat(raw.fileno()).st_size
        room, free = limits.room(size), shutil.disk_usage(into).free
        bomb = _RefusedError(
            f"a zip bomb? It has {amount(size)} and must not unpack to more than {amount(room)}; {REMEDY}"
        )
        full = _RefusedError(f"it needs more than the {amount(free)} that are free; free some room first.")
        total = 0
        try:
            with opened(raw, size, room, into) as (least, members):
                for count, member in enumerate(members, 1):
                    total += member.size
                    if max(total, least) > room:
                        raise RoomError
                    if max(total, least) > free:
                        raise full
                    if count > limits.members:
                        raise _RefusedError(f"it has more than {limits.members:,} members; {REMEDY}")
                    _write(member, into.joinpath(*_parts(member)))
                    if progress:
                        progress(min(member.done, size), size)
        except RoomError as error:
            raise bomb from error


def require_room(folder: Path, size: int) -> None:
    free = shutil.disk_usage(folder).free
    if size > free:
        raise UserError(
            f"{folder} must have room for {amount(size)}; it has {amount(free)}. Free some or choose another"
            " folder."
        )


def _parts(member: ArchiveMember) -> list[str]:
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


def _write(member: ArchiveMember, target: Path) -> None:
    try:
        if member.folder:
            target.mkdir(parents=True, exist_ok=True)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:  # x: never over an existing file
            with member.open() as source:
                shutil.copyfileobj(source, file, PIECE)
            if file.tell() != member.size:
                raise EOFError(f"{member.name!r} ends early")
    except (FileExistsError, NotADirectoryError) as error:
        raise _RefusedError(f"{member.name!r} is in it twice; {REMEDY}") from error


@contextlib.contextmanager
def _user_errors(archive: Path) -> Iterator[None]:
    """Turn every error of the block into a UserError about `archive`."""
    try:
        with user_errors(f"{archive} cannot be unpacked"):
            yield
    except WebPageError as error:
        raise UserError(
            f"{archive} is refused: it is a web page; fetch the file that the page links to."
        ) from error
    except _RefusedError as error:
        raise UserError(f"{archive} is refused: {error}") from error
    except (OSError, *DAMAGED) as error:
        why = " ".join(f"{error}".split())[:200] or type(error).__name__
        raise UserError(
            f"{archive} is refused: it is damaged or not an archive (.tar, .tar.gz, .tar.bz2, .tar.xz, .zip):"
            f" {why}; fetch it again."
        ) from error
