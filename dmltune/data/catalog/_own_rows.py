"""What folders and tables of own images share: rows, and the half of a class."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dmltune.data.images import Part
from dmltune.errors import printable

MANY = 40  # from this many classes on, a hash alone divides them well enough
SPLITS = ("train", "test", "query", "gallery")


@dataclass(frozen=True)
class ImageRow:
    """One image. Without `split` a hash decides its half; `place` is photos.csv:7."""

    path: str
    label: str
    category: str = ""
    split: str = ""
    place: str = ""


def half_of(row: ImageRow, dealt: Mapping[str, Part]) -> Part:
    if row.split:
        return "train" if row.split == "train" else "test"
    return dealt[row.label]


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
