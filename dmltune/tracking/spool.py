"""Writes that a tracking server has not taken yet: JSON lines on disk, in their order.

undelivered.jsonl   a line per write, and a line {"done": number} when the server has it
undelivered/        copies of the files that the writes are about

A line is on the disk (fsync) before the write counts as kept. A torn last line, of a kill while it was
written, was never kept. With nothing left to deliver both are removed.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dmltune.errors import UserError, parse_json

LINES, FILES = "undelivered.jsonl", "undelivered"


@dataclass(frozen=True)
class Write:
    """One call of a method of the tracker."""

    number: int
    method: str
    arguments: dict[str, Any]


class Spool:
    """The writes of one search that wait. Not safe for several threads: its user has a lock."""

    def __init__(self, folder: Path) -> None:
        self._path, self._files = folder / LINES, folder / FILES
        self._next = 0
        self.waiting: deque[Write] = deque()
        if self._path.is_file():
            self._read()
        if not self.waiting:
            shutil.rmtree(self._files, ignore_errors=True)  # of a kill before their line was written

    @property
    def path(self) -> Path:
        return self._path

    def append(self, method: str, arguments: dict[str, Any]) -> None:
        """Keep a write: it is on the disk when this returns."""
        write = Write(self._next, method, arguments)
        self._store({"number": write.number, "method": method, "arguments": arguments})
        self._next += 1
        self.waiting.append(write)

    def keep_files(self, source: Path) -> Path:
        """Copy a file or folder whose owner may delete it before it is delivered; links where that works."""
        target = self._files / f"{self._next:06d}" / source.name
        self._files.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.rmtree(target.parent, ignore_errors=True)  # its files may be links: never write into them
        if source.is_dir():
            shutil.copytree(source, target, copy_function=_linked)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            _linked(str(source), str(target))
        return target

    def done(self, write: Write) -> None:
        """Note that the first write is delivered."""
        assert self.waiting[0] is write
        if len(self.waiting) == 1:
            self._path.unlink(missing_ok=True)
            shutil.rmtree(self._files, ignore_errors=True)
        else:
            self._store({"done": write.number})
            shutil.rmtree(self._files / f"{write.number:06d}", ignore_errors=True)
        self.waiting.popleft()

    def _store(self, line: dict[str, Any]) -> None:
        """Append a line, whole or not at all: a full disk leaves no half of it."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            before = os.fstat(descriptor).st_size
            text = (json.dumps(line) + "\n").encode()
            try:
                if os.write(descriptor, text) != len(text):
                    raise OSError("the disk is full")
                os.fsync(descriptor)
            except OSError as error:
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, before)
                raise UserError(
                    f"{self._path} cannot be written ({error.strerror or error}), and the tracking server is "
                    "away. Make room on the disk; the same command continues."
                ) from None
        finally:
            os.close(descriptor)

    def _read(self) -> None:
        text = self._path.read_bytes()
        whole = text[: text.rfind(b"\n") + 1]
        if len(whole) < len(text):
            os.truncate(self._path, len(whole))
        try:
            for line in whole.splitlines():
                entry = parse_json(line)
                if "done" in entry:
                    assert self.waiting.popleft().number == entry["done"]
                    continue
                self.waiting.append(Write(entry["number"], entry["method"], dict(entry["arguments"])))
                self._next = entry["number"] + 1
        except (ValueError, KeyError, TypeError, IndexError, AssertionError) as error:
            raise UserError(
                f"{self._path} is damaged ({type(error).__name__}): it holds what the tracking server "
                "has not got. Restore it from a backup, or move it away to continue without these figures."
            ) from None


def _linked(source: str, target: str) -> None:
    """Link a file where the file system can, else copy it: weights are large."""
    try:
        Path(target).hardlink_to(source)
    except OSError:
        shutil.copy2(source, target)
