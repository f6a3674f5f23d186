"""Own images in class folders: photos/CLASS/**/*.jpg, or photos/train/CLASS and photos/test/CLASS (or query
and gallery in place of test).

Whatever lies in a class folder, however deep, is of the class. Hidden files and folders are passed over, so
are files without the suffix of an image. A link is followed where it stays in the folder and refused where it
leads out of it: what trains is what is seen there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from dmltune.data.catalog._own_rows import SPLITS, ImageRow, deal, plain
from dmltune.data.images import Part
from dmltune.errors import UserError

SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".webp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"}
VALIDATION = {"val", "valid", "validation", "dev"}


def rows(base: Path, part: Part) -> list[ImageRow]:
    """The images of a part, class by class by name. The other part's folders are not entered."""
    within = os.path.realpath(base)
    splits = told(base)
    if not splits:
        classes = _folders(base, within)
        if not classes:
            raise UserError(f"own: no folder in {base}; put a folder for each class there, with its images.")
        dealt = deal(classes)
        kept = [name for name in classes if dealt[name] == part]
        return [row for name in kept for row in _rows(base, Path(name), part, within)]
    classes_of = {split: _folders(base / split, within) for split in splits}
    _check_disjoint(base, classes_of)
    return [
        row
        for split in splits
        if (split == "train") == (part == "train")
        for name in classes_of[split]
        for row in _rows(base, Path(split, name), split, within)
    ]


def told(base: Path) -> tuple[str, ...]:
    """The folders train, test, query and gallery, where there is nothing else; () where classes lie there."""
    found = set(_folders(base, os.path.realpath(base)))
    if "train" not in found or found - {*SPLITS, *VALIDATION}:
        return ()
    if extra := sorted(found & VALIDATION):
        raise UserError(
            f"own: {base} has a folder {extra[0]}, but validation classes are taken from train; "
            "move its class folders into train."
        )
    if found not in ({"train"}, {"train", "test"}, {"train", "query", "gallery"}):
        raise UserError(
            f"own: beside train must be test, or query and gallery; got {', '.join(sorted(found))} in {base}."
        )
    return tuple(split for split in SPLITS if split in found)


def _check_disjoint(base: Path, classes_of: dict[str, list[str]]) -> None:
    trained = {plain(name) for name in classes_of["train"]}
    for split, names in classes_of.items():
        if split != "train" and (both := sorted(trained.intersection(map(plain, names)))):
            more = f", and {len(both) - 1} more are" if len(both) > 1 else ""
            raise UserError(
                f"own: class '{both[0]}' is in train and in {split} of {base}{more}; to test takes other"
                " classes than to train: leave each in one of them."
            )


def _rows(base: Path, folder: Path, split: str, within: str) -> Iterator[ImageRow]:
    label = plain(folder.name)
    for path in _images(base / folder, within, ()):
        yield ImageRow(os.path.relpath(path, base), label, split=split)


def _folders(base: Path, within: str) -> list[str]:
    return sorted(entry.name for entry in _seen(base) if entry.is_dir() and _inside(entry, within))


def _images(folder: Path | str, within: str, above: tuple[str, ...]) -> Iterator[str]:
    real = os.path.realpath(folder)
    if real in above:
        return  # a link to a folder that this one is in
    for entry in sorted(_seen(folder), key=lambda entry: entry.name):
        if entry.is_dir():
            if _inside(entry, within):
                yield from _images(entry.path, within, (*above, real))
        elif os.path.splitext(entry.name)[1].lower() in SUFFIXES and _inside(entry, within):
            yield entry.path


def _seen(folder: Path | str) -> list[os.DirEntry[str]]:
    """All but the hidden ones and what macOS puts beside them into archives."""
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if not entry.name.startswith((".", "__MACOSX"))]
    except OSError as error:
        raise UserError(
            f"own: {folder} cannot be read ({error.strerror}); allow it or move it away."
        ) from error


def _inside(entry: os.DirEntry[str], within: str) -> bool:
    """True, or the error: a link must stay in the folder."""
    if entry.is_symlink():
        real = os.path.realpath(entry.path)
        if os.path.commonpath([real, within]) != within:
            raise UserError(
                f"own: {entry.path} is a link out of {within}; put what it leads to there, or list the"
                " images in a CSV file."
            )
    return True
