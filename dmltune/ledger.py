"""The test ledger: every time test classes were looked at, one line, for ever.

`test_ledger.jsonl` lies beside the runs. Lines are only ever appended, under a lock, and are on the disk
before anybody gets a test image.
"""

from __future__ import annotations

import fcntl
import getpass
import json
import os
import secrets
import shlex
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

from dmltune.errors import UserError
from dmltune.store import Store
from dmltune.tracking import about_versions

FILE = "test_ledger.jsonl"
Kind = Literal["check", "evaluate", "reproduce", "shown again"]


@dataclass(frozen=True)
class LedgerEntry:
    """One opening: of which data, for which configurations of which study, by whom and why."""

    kind: Kind
    study: str  # the search, training or reproduction whose figures were wanted
    why: str
    data: str
    fingerprint: str  # of the test classes
    check: str = ""  # the check's own name
    configurations: tuple[str, ...] = ()  # their digests
    run_ids: tuple[str, ...] = ()
    id: str = field(default_factory=lambda: secrets.token_hex(6))
    time: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    who: str = field(default_factory=lambda: _who())
    command: str = field(default_factory=lambda: _command())
    commit: str = field(default_factory=lambda: about_versions().get("git.commit", ""))

    def to_dict(self) -> dict[str, Any]:
        return {
            key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()
        }


class Ledger:
    """All openings of one store."""

    def __init__(self, store: Store) -> None:
        self.path: Path = store.root / FILE

    def write(self, entry: LedgerEntry) -> LedgerEntry:
        """Append, and return when the line is on the disk."""
        if entry.kind not in get_args(Kind):
            raise ValueError(f"an opening is one of {get_args(Kind)}; got {entry.kind!r}")
        try:
            with open(self.path, "a+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)  # the kernel lets go when the process ends, however
                line = lines([entry.to_dict()]).encode()
                if file.seek(0, os.SEEK_END) and not _ends_a_line(file.fileno()):
                    line = b"\n" + line  # somebody was killed in the middle of theirs
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise UserError(
                f"the test ledger must be writable before test classes are opened; got {self.path} "
                f"({error.strerror}). Make it so, or choose another --store."
            ) from None
        return entry

    def entries(self, study: str | None = None) -> list[LedgerEntry]:
        """Oldest first; with `study` only what was opened of it, or by a check of that name."""
        return [one for one in self._lines() if study is None or study in (one.study, one.check)]

    def _lines(self) -> Iterator[LedgerEntry]:
        if not self.path.is_file():
            return
        for line in self.path.read_bytes().splitlines():
            try:
                found = json.loads(line)
                yield LedgerEntry(**{key: _tuple(value) for key, value in found.items()})
            except (ValueError, TypeError):  # half a line, of a writer that was killed
                continue


def lines(entries: Iterable[Mapping[str, Any]]) -> str:
    """As the file has them, for whoever keeps some elsewhere too."""
    return "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)


def _ends_a_line(descriptor: int) -> bool:
    size = os.fstat(descriptor).st_size
    return size == 0 or os.pread(descriptor, 1, size - 1) == b"\n"


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _who() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # no such user: a container with a bare number
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def _command() -> str:
    program = (
        Path(sys.argv[0]).parent.name if Path(sys.argv[0]).name == "__main__.py" else Path(sys.argv[0]).name
    )
    return shlex.join([program, *sys.argv[1:]]).strip() if sys.argv else ""
