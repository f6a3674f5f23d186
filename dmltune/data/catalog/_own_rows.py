"""What folders and tables of own images have in common: a row for an image, and the half of its class."""

from __future__ import annotations

import hashlib
import unicodedata
from dataclasses import dataclass

from dmltune.data.images import Part

SPLITS = ("train", "test", "query", "gallery")


@dataclass(frozen=True)
class Row:
    """One image. `split` "" leaves its half to the hash; `place` is where a table lists it: photos.csv:7."""

    path: str
    label: str
    category: str = ""
    split: str = ""
    place: str = ""


def half_of(row: Row) -> Part:
    if row.split:
        return "train" if row.split == "train" else "test"
    return dealt(row.label)


def dealt(label: str) -> Part:
    """About half of the classes each, and the same for a name wherever and with whatever else it comes."""
    return "test" if hashlib.sha256(plain(label).encode()).digest()[0] & 1 else "train"


def plain(name: str) -> str:
    """macOS writes é in a folder's name as e and an accent; the name is the same."""
    return unicodedata.normalize("NFC", name)
