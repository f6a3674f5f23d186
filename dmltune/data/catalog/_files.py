"""What the loaders of photos share: finding a copy, reading its lists, handing out its images."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from dmltune.data.images import ImageSet, Ints, Part, Pixels, from_pil
from dmltune.errors import UserError

REMEDY = "say where it is with --data-root or DMLTUNE_DATA."
_NOTED: ContextVar[list[Path] | None] = ContextVar("noted", default=None)


@dataclass(frozen=True)
class Source:
    """A published data set. A copy of it lies in one of `folders`, the official name first, and has all
    files of one of the `layouts`.
    """

    name: str
    folders: tuple[str, ...]
    layouts: tuple[tuple[str, ...], ...]

    def find(self, root: Path | None) -> Path:
        """The folder of the copy: `root` or DMLTUNE_DATA itself or a folder in it."""
        base = self.base(root)
        for folder in (*(base / name for name in self.folders), base):
            if any(all((folder / file).is_file() for file in layout) for layout in self.layouts):
                return folder
        lists = " or ".join(", ".join(layout) for layout in self.layouts)
        raise UserError(f"no {self.folders[0]} (with {lists}) in {base}; {REMEDY}")

    def base(self, root: Path | None) -> Path:
        environment = os.environ.get("DMLTUNE_DATA")
        if root is None and not environment:
            raise UserError(f"data set '{self.name}' needs the folder {self.folders[0]}; {REMEDY}")
        return root or Path(environment or "")

    def broken(self, what: str) -> UserError:
        return UserError(f"{self.name}: {what}; fetch {self.folders[0]} again.")

    def lines(self, file: Path) -> list[str]:
        try:
            return file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise self.broken(f"{file} cannot be read ({error})") from error

    def table(self, file: Path, columns: int, header: int = 0) -> list[list[str]]:
        """The fields of every line after the header; blank lines are skipped."""
        rows = []
        for number, line in enumerate(self.lines(file)[header:], header + 1):
            fields = line.split()
            if fields and len(fields) != columns:
                raise self.broken(f"{file}, line {number}: {columns} columns expected, got {len(fields)}")
            if fields:
                rows.append(fields)
        if not rows:
            raise self.broken(f"{file} lists no image")
        return rows

    def numbers(self, file: Path, fields: Sequence[str]) -> Ints:
        try:
            return np.array([int(field) for field in fields], dtype=np.int64)
        except ValueError as error:
            raise self.broken(f"{file} has a word where a number belongs ({error})") from error

    def images(
        self,
        part: Part,
        folder: Path,
        paths: Sequence[str],
        labels_N: Ints,
        class_names: Sequence[str],
        *,
        within: Path,
        listed: Path,
        details: Sequence[object] = (),
        **more: Any,
    ) -> ImageSet:
        """The set of the files `within / path`, all there when it is made; `more` goes to the ImageSet.

        `details`: what tells the set apart besides names and sizes, for data whose paths do not tell the
        class.
        """
        files = [within / path for path in paths]
        names = tuple(class_names)

        def read(indices: Ints, side: int | None) -> list[Pixels]:
            return [self._decode(files[index], side) for index in indices]

        noted = _NOTED.get()
        if noted is not None:
            noted += files
            return ImageSet(self.name, part, labels_N, names, "", read, **more)
        stats = [self._stat(file, listed) for file in files]
        listing = [(path, stat.st_size) for path, stat in zip(paths, stats, strict=True)]
        return ImageSet(
            name=self.name,
            part=part,
            labels_N=labels_N,
            class_names=names,
            # of names and sizes: hashing the images themselves takes too long
            fingerprint=_hash(names, listing, *details),
            reader=read,
            key=_hash(str(folder.resolve()), listing, [stat.st_mtime_ns for stat in stats]),
            **more,
        )

    def _stat(self, file: Path, listed: Path) -> os.stat_result:
        try:
            return file.stat()
        except OSError as error:
            raise UserError(
                f"{self.name}: {file} is listed in {listed} but missing; fetch it again."
            ) from error

    def _decode(self, file: Path, side: int | None) -> Pixels:
        """(H, W, 3). With `side` a JPEG is decoded at the smallest scale that is not below it, which is
        quicker."""
        try:
            with Image.open(file) as image:
                if side is not None:
                    image.draft("RGB", (side, side))
                return from_pil(image.convert("RGB"))
        except (OSError, SyntaxError, ValueError) as error:  # Pillow's plugins raise all three
            raise self.broken(f"{file} cannot be read ({error})") from error


@contextlib.contextmanager
def noting() -> Iterator[list[Path]]:
    """In this block loaders put the files of their sets into the list, in order, and look at none of them:
    whoever verifies a copy wants to know of every file that is missing, not of the first.
    """
    noted: list[Path] = []
    token = _NOTED.set(noted)
    try:
        yield noted
    finally:
        _NOTED.reset(token)


def dense(values: Ints) -> tuple[Ints, Ints, Ints]:
    """The distinct values in order, where each is first, and every value as its place among them."""
    distinct, first, place_N = np.unique(values, return_index=True, return_inverse=True)
    return distinct, first, place_N.astype(np.int64)


def _hash(*content: object) -> str:
    return hashlib.sha256(repr(content).encode()).hexdigest()[:16]
