"""The image files that a user names: files, and folders with class folders."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dmltune.data.catalog._own_folders import SPLITS, SUFFIXES
from dmltune.errors import UserError, readable


@dataclass(frozen=True, slots=True)  # an index has a million
class ImageFile:
    """One image. `label` is its class folder, "" where it lies in no folder of a class."""

    path: str
    label: str


def image_files(places: Sequence[str | Path]) -> list[ImageFile]:
    """Return the named files, and the images in the named folders at any depth, in the order of their names.

    A file that is named has any suffix. In folders hidden entries and other suffixes are ignored, and what
    links reach in several ways is listed once.
    """
    files: list[ImageFile] = []
    for place in places:
        path = Path(place)
        if os.path.isdir(path):
            inside = list(_inside(path))
            if not inside:
                suffixes = ", ".join(sorted(SUFFIXES))
                raise UserError(f"no image in the folder {readable(str(path))}; images end with {suffixes}.")
            files += inside
        elif os.path.lexists(path):
            files.append(ImageFile(str(path), ""))
        else:
            raise UserError(f"no image file or folder {readable(str(path))}. Check the path.")
    return list({file.path: file for file in files}.values())


def _inside(base: Path) -> Iterator[ImageFile]:
    visited: set[str] = set()
    pending = [(str(base), "")]
    while pending:
        folder, label = pending.pop()
        real = os.path.realpath(folder)
        if real in visited:
            continue
        visited.add(real)
        folders = []
        for entry in _entries(folder):
            if _is_folder(entry):
                is_class = not label and entry.name not in SPLITS
                folders.append((entry.path, entry.name if is_class else label))
            elif os.path.splitext(entry.name)[1].lower() in SUFFIXES:
                yield ImageFile(entry.path, label)
        pending += reversed(folders)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            shown = [entry for entry in entries if not entry.name.startswith((".", "__MACOSX"))]
    except OSError as error:
        raise UserError(
            f"the folder {readable(folder)} cannot be read ({error.strerror}). Allow it, or leave it out."
        ) from None
    return sorted(shown, key=lambda entry: entry.name)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False
