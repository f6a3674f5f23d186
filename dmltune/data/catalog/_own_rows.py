"""What folders and tables of own images have in common: a row for an image, and the half of its class."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dmltune.data.images import Part

MANY = 40  # classes from which on a hash alone parts them well enough
SPLITS = ("train", "test", "query", "gallery")


@dataclass(frozen=True)
class ImageRow:
    """One image. `split` "" leaves its half to the hash; `place` is where a table lists it: photos.csv:7."""

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
    """About half of the classes each, by a hash of the name: of many classes each has its half wherever and
    with whatever else it comes. Of few the half with the smaller hashes trains: luck could leave one side
    nearly empty.
    """
    digests = {label: hashlib.sha256(plain(label).encode()).digest() for label in labels}
    if len(digests) >= MANY:
        return {label: "train" if digest < b"\x80" else "test" for label, digest in digests.items()}
    ranked = sorted(digests, key=digests.__getitem__)
    trained = ranked[: (len(ranked) + 1) // 2]
    return {label: "train" if label in trained else "test" for label in digests}


def plain(name: str) -> str:
    """macOS writes é in a folder's name as e and an accent; the name is the same."""
    return unicodedata.normalize("NFC", name)
