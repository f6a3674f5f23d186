"""The test ledger: one line for every time test classes were looked at.

`test_ledger.jsonl` lies beside the runs. Lines are only ever appended, under a lock, and are on the disk
before a test image is handed out.
"""

from __future__ import annotations

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

from filelock import FileLock

from dmltune.errors import UserError, parse_json
from dmltune.private import private_opener
from dmltune.provenance import git_commit
from dmltune.store import Store, require_regular

FILE = "test_ledger.jsonl"
Kind = Literal["check", "evaluate", "reproduce", "monitored", "trained", "shown again"]


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
    who: str = field(default_factory=lambda: _user())
    command: str = field(default_factory=lambda: _command())
    commit: str = field(default_factory=lambda: git_commit() or "")

    def to_dict(self) -> dict[str, Any]:
        return {
            key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> LedgerEntry:
        """Return the entry that `to_dict` described. TypeError when it is none."""
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in document.items()
        }
        return cls(**values)


class Ledger:
    """All openings of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.path: Path = store.root / FILE

    def write(self, entry: LedgerEntry) -> LedgerEntry:
        """Append, and return when the line is on the disk, and at the store's address if it has one."""
        with self._store.owned():
            written = self._append(entry)
            self._store.publish()
        return written

    def _append(self, entry: LedgerEntry) -> LedgerEntry:
        if entry.kind not in get_args(Kind):
            raise ValueError(f"an opening is one of {get_args(Kind)}; got {entry.kind!r}")
        require_regular(self.path)
        try:
            with (
                FileLock(f"{self.path}.lock", timeout=120, mode=0o600),
                open(self.path, "a+b", opener=private_opener) as file,
            ):
                line = to_lines([entry.to_dict()]).encode()
                if file.seek(0, os.SEEK_END) and not _ends_a_line(file.fileno()):
                    line = b"\n" + line  # a writer was killed in the middle of its line
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise UserError(
                f"the test ledger must be writable before test classes are opened; got {self.path} "
                f"({error.strerror or type(error).__name__}). Make it so, or choose another --store."
            ) from None
        return entry

    def entries(self, study: str | None = None) -> list[LedgerEntry]:
        """Return all entries, oldest first; with `study` those of it, or of a check with that name."""
        return [entry for entry in self._lines() if study is None or study in (entry.study, entry.check)]

    def was_opened(self, data: str) -> bool:
        """Return whether test classes of this data set were ever looked at from this store."""
        return any(entry.data == data and entry.kind != "shown again" for entry in self._lines())

    def _lines(self) -> Iterator[LedgerEntry]:
        if not self.path.exists():
            return
        require_regular(self.path)
        for number, line in enumerate(self.path.read_bytes().splitlines(), start=1):
            try:
                yield LedgerEntry.from_dict(parse_json(line))
            except (ValueError, TypeError, AttributeError):
                if line.startswith(b"{") and not line.endswith(b"}"):
                    continue  # half a line, of a writer that was killed
                raise UserError(
                    f"{self.path}:{number}: not an entry of the test ledger. Restore the file from a backup."
                ) from None


def to_lines(entries: Iterable[Mapping[str, Any]]) -> str:
    """Return the entries as the file has them, a line each."""
    return "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)


def _ends_a_line(descriptor: int) -> bool:
    size = os.fstat(descriptor).st_size
    return size == 0 or os.pread(descriptor, 1, size - 1) == b"\n"


def _user() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # no such user: a container with a bare number
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def _command() -> str:
    program = Path(sys.argv[0]) if sys.argv else Path()
    name = program.parent.name if program.name == "__main__.py" else program.name
    return shlex.join([name, *sys.argv[1:]]).strip() if sys.argv else ""
