"""Merge characters that look the same: A is Latin, Greek, Cyrillic and Lisu."""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

HARDLY = 0.05  # measured: pairs like Ё and Ë differ by 0.02 at most, Á and Greek Ά by 0.15


def representatives(faces: Sequence[Mapping[str, bytes]]) -> dict[str, str]:
    """Map every character to the lowest code point among those that look the same.

    A face maps characters to pictures. Two look the same when their pictures are equal in at least half of
    the faces that have both (one face is not enough: Cyrillic т is m in italics). So do the same accents on
    letters that look the same, when the pictures hardly differ: Ё and Ë, whose dots some faces place a pixel
    apart, but not É and Greek Έ.
    """
    from scipy.cluster.hierarchy import DisjointSet  # nothing else here needs it

    everything = sorted(set().union(*faces))
    parts_of = {character: unicodedata.normalize("NFD", character) for character in everything}
    merged = DisjointSet(set(everything).union(*parts_of.values()))
    alike: Counter[tuple[str, str]] = Counter()
    for face in faces:
        by_picture = defaultdict(list)
        for character, picture in face.items():
            by_picture[picture].append(character)
        for characters in by_picture.values():
            alike.update(combinations(sorted(characters), 2))
    for (first, second), times in alike.items():
        if 2 * times >= sum(first in face and second in face for face in faces):
            merged.merge(first, second)

    by_skeleton: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for character, parts in parts_of.items():
        if len(parts) > 1:
            by_skeleton[tuple(merged[part] for part in parts)].append(character)
    for characters in by_skeleton.values():
        for first, second in combinations(characters, 2):
            if _difference(faces, first, second) <= HARDLY:
                merged.merge(first, second)
    return {character: min(merged.subset(character)) for character in everything}


def distinct_pictures(
    faces: Sequence[Mapping[str, bytes]], classes: Mapping[str, str]
) -> dict[str, list[bytes]]:
    """Return the distinct pictures of each class, without those of two classes."""
    owners: defaultdict[bytes, set[str]] = defaultdict(set)
    for face in faces:
        for character, picture in face.items():
            owners[picture].add(classes[character])
    pictures: defaultdict[str, list[bytes]] = defaultdict(list)
    for picture, (owner, *others) in owners.items():
        if not others:
            pictures[owner].append(picture)
    return dict(pictures)


def _difference(faces: Sequence[Mapping[str, bytes]], first: str, second: str) -> float:
    """Return the median of ‖a − b‖² / min(‖a‖², ‖b‖²) over the faces that have both."""
    distances = []
    for face in faces:
        if first in face and second in face:
            a, b = (np.frombuffer(face[each], np.uint8).astype(np.float64) for each in (first, second))
            distances.append(((a - b) ** 2).sum() / min((a**2).sum(), (b**2).sum()))
    return float(np.median(distances)) if distances else float("inf")
