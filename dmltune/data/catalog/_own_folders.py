"""Own images in class folders: photos/CLASS/**/*.jpg, or photos/train/CLASS and so on.

Beside train is test, or query and gallery. Images at any depth of a class folder are of the class. Hidden
files and folders, and files without the suffix of an image, are ignored. A link to a place outside of the
folder is refused. A folder that a class reaches in several ways, by links, is read once.

Tables share the rows, the names of splits, and the half of a class.
"""

from __future__ import annotations

import hashlib
import os
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dmltune.data.images import Part
from dmltune.errors import UserError, printable

MANY = 40  # from this many classes on, a hash alone divides them well enough
# the names of splits, and their halves
SPLITS: dict[str, Part] = {"train": "train", "test": "test", "query": "test", "gallery": "test"}
SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".webp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"}
VALIDATION = {"val", "valid", "validation", "dev"}


@dataclass(frozen=True)
class ImageRow:
    """One image. Without `split` a hash decides its half; `place` is photos.csv:7."""

    path: str
    label: str
    category: str = ""
    split: str = ""
    place: str = ""


def deal(labels: Iterable[str]) -> dict[str, Part]:
    """Deal about half of the classes to each half, by a hash of their names.

    With MANY classes or more the half of a class does not depend on the others. With fewer the classes with
    the smaller hashes train, exactly half of them: a hash alone could leave a half nearly empty.
    """
    digests = {label: hashlib.sha256(class_name(label).encode()).digest() for label in labels}
    if len(digests) >= MANY:
        return {label: "train" if digest < b"\x80" else "test" for label, digest in digests.items()}
    ranked = sorted(digests, key=digests.__getitem__)
    trained = ranked[: (len(ranked) + 1) // 2]
    return {label: "train" if label in trained else "test" for label in digests}


def class_name(name: str) -> str:
    """Return a folder's or a table's name of a class: printable, and é as one character (NFC)."""
    return printable(unicodedata.normalize("NFC", name)).replace("\n", "\\n")


def rows(base: Path, part: Part) -> list[ImageRow]:
    """List the images of a part by class; the folders of the other part are not entered."""
    root = os.path.realpath(base)
    splits = split_folders(base)
    if not splits:
        classes = _folders(base, root)
        if not classes:
            raise UserError(f"own: no folder in {base}; put a folder for each class there, with its images.")
        dealt = deal(classes)
        chosen = [name for name in classes if dealt[name] == part]
        return [row for name in chosen for row in _rows(base, Path(name), part, root)]
    classes_of = {split: _folders(base / split, root) for split in splits}
    _require_disjoint(base, classes_of)
    return [
        row
        for split in splits
        if SPLITS[split] == part
        for name in classes_of[split]
        for row in _rows(base, Path(split, name), split, root)
    ]


def split_folders(base: Path) -> tuple[str, ...]:
    """Return which of SPLITS the folder has; () when its folders are classes."""
    names = set(_folders(base, os.path.realpath(base)))
    if "train" not in names or names - {*SPLITS, *VALIDATION}:
        return ()
    if extra := sorted(names & VALIDATION):
        raise UserError(
            f"own: {base} has a folder {extra[0]}, but validation classes are taken from train; "
            "move its class folders into train."
        )
    if names not in ({"train"}, {"train", "test"}, {"train", "query", "gallery"}):
        raise UserError(
            f"own: beside train must be test, or query and gallery; got {', '.join(sorted(names))} in {base}."
        )
    return tuple(split for split in SPLITS if split in names)


def _require_disjoint(base: Path, classes_of: dict[str, list[str]]) -> None:
    trained = {class_name(name) for name in classes_of["train"]}
    for split, names in classes_of.items():
        if split != "train" and (both := sorted(trained.intersection(map(class_name, names)))):
            more = f", and {len(both) - 1} more are" if len(both) > 1 else ""
            raise UserError(
                f"own: class '{both[0]}' is in train and in {split} of {base}{more}; train and test must not"
                " share a class: leave it in one of them."
            )


def _rows(base: Path, folder: Path, split: str, root: str) -> Iterator[ImageRow]:
    label = class_name(folder.name)
    for path in _images(base / folder, root):
        yield ImageRow(os.path.relpath(path, base), label, split=split)


def _folders(base: Path, root: str) -> list[str]:
    return [entry.name for entry in _entries(base) if _is_folder(entry, root)]


def _images(folder: Path, root: str) -> Iterator[str]:
    """Yield the images in `folder` in the order of their names, depth first."""
    visited = {os.path.realpath(folder)}
    branch = [iter(_entries(folder))]
    while branch:
        entry = next(branch[-1], None)
        if entry is None:
            branch.pop()
        elif _is_folder(entry, root):
            if (real := os.path.realpath(entry.path)) not in visited:
                visited.add(real)
                branch.append(iter(_entries(entry.path)))
        elif os.path.splitext(entry.name)[1].lower() in SUFFIXES:
            _require_inside(entry, root)
            yield entry.path


def _entries(folder: Path | str) -> list[os.DirEntry[str]]:
    """List all entries by name, but for hidden ones and those that macOS adds to archives."""
    try:
        with os.scandir(folder) as entries:
            shown = [entry for entry in entries if not entry.name.startswith((".", "__MACOSX"))]
    except OSError as error:
        raise UserError(
            f"own: {folder} cannot be read ({error.strerror}); allow it or move it away."
        ) from error
    return sorted(shown, key=lambda entry: entry.name)


def _is_folder(entry: os.DirEntry[str], root: str) -> bool:
    try:
        is_folder = entry.is_dir()
    except OSError:  # a link to itself
        return False
    if is_folder:
        _require_inside(entry, root)
    return is_folder


def _require_inside(entry: os.DirEntry[str], root: str) -> None:
    if entry.is_symlink() and os.path.commonpath([os.path.realpath(entry.path), root]) != root:
        raise UserError(
            f"own: {entry.path} is a link out of {root}; put its target there, or list the images in a CSV"
            " file."
        )
