"""Pairs of faces to be compared: LFW, IJB-C or a table; for `core.verification`.

Legend: F files, T templates, P pairs, M media, D dimensions.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dmltune.data.catalog._files import Source, dense
from dmltune.data.files import open_regular
from dmltune.data.images import ImageSet, Ints
from dmltune.errors import UserError, readable

LFW = Source("lfw", ("lfw",), (("pairs.txt",),))
FACES, COMPARED = "meta/ijbc_face_tid_mid.txt", "meta/ijbc_template_pair_label.txt"
IJBC = Source("ijbc", ("IJBC",), ((FACES, COMPARED),))
COLUMNS = ("left", "right", "same")
ANSWERS = {"1": True, "0": False, "true": True, "false": False, "yes": True, "no": False}
SUFFIXES = (".jpg", ".png")  # of LFW: as published, and as often aligned
SOURCE = Source("pairs", ("pairs",), ())
_BLOCK = 1 << 22  # numbers in memory at once


@dataclass(frozen=True, eq=False)
class Pairs:
    """Templates left_P and right_P are compared; same_P says whether they are of one person.

    A template is one file in LFW. In IJB-C it is all pictures and video frames of a person, and files of one
    video have the same media_F. The pairs keep their order, since the folds of LFW are contiguous.
    """

    files: tuple[Path, ...]
    template_F: Ints
    media_F: Ints
    left_P: Ints
    right_P: Ints
    same_P: NDArray[np.bool_]

    def templates(self, emb_FD: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return unit vectors, (T, D): the mean of a template's media, each that of its files.

        A long video thus weighs as much as a picture.
        """
        both = np.stack([self.template_F, self.media_F], axis=1)
        media_M2, place_F = np.unique(both, axis=0, return_inverse=True)
        emb_MD = _means(emb_FD, place_F.ravel(), len(media_M2))
        emb_TD = _means(emb_MD, media_M2[:, 0], int(self.template_F.max()) + 1)
        unit_TD: NDArray[np.floating] = emb_TD / np.linalg.norm(emb_TD, axis=1, keepdims=True)
        return unit_TD


def lfw(root: Path | None = None, suffix: str = ".jpg") -> Pairs:
    """Read the pairs of LFW; `root` is the folder with pairs.txt, or has it as `lfw`."""
    folder = LFW.find(root)
    listed = folder / "pairs.txt"
    lines = [line.split() for line in LFW.lines(listed)[1:]]  # the first has the numbers of folds and pairs
    listed_pairs: list[tuple[str, str, bool]] = []

    def file_of(name: str, number: str) -> str:
        """Return the path of a picture: `Aaron_Peirsol 1` → Aaron_Peirsol/Aaron_Peirsol_0001.jpg."""
        if not number.isdecimal():
            raise LFW.broken(f"{listed} has '{number}' where the number of a picture of {name} belongs")
        return f"{name}/{name}_{int(number):04d}{suffix}"

    for number, fields in enumerate(lines, 2):
        if len(fields) == 3:
            name, first, second = fields
            listed_pairs.append((file_of(name, first), file_of(name, second), True))
        elif len(fields) == 4:
            listed_pairs.append((file_of(*fields[:2]), file_of(*fields[2:]), False))
        elif fields:
            raise LFW.broken(f"{listed}, line {number}: 3 or 4 columns expected, got {len(fields)}")
    if not listed_pairs:
        raise LFW.broken(f"{listed} lists no pair")
    return _of_files(folder, listed_pairs)


def ijbc(root: Path | None = None) -> Pairs:
    """Read the templates of IJB-C; `root` is the folder with meta, or has it as `IJBC`."""
    folder = IJBC.find(root)
    rows = IJBC.table(folder / FACES, columns=3)  # file, template, media
    numbers, _, template_F = dense(IJBC.numbers(folder / FACES, [row[1] for row in rows]))
    try:
        pairs_P3 = np.loadtxt(folder / COMPARED, dtype=np.int64, ndmin=2)  # 15.7 million lines
    except ValueError as error:
        raise IJBC.broken(f"{folder / COMPARED} cannot be read ({error})") from error
    if pairs_P3.shape[1:] != (3,) or not np.isin(pairs_P3[:, :2], numbers).all():
        raise IJBC.broken(f"{folder / COMPARED} must have two templates of {FACES} and 0 or 1 in a line")
    return Pairs(
        files=tuple(folder / "loose_crop" / row[0] for row in rows),
        template_F=template_F,
        media_F=IJBC.numbers(folder / FACES, [row[2] for row in rows]),
        left_P=np.searchsorted(numbers, pairs_P3[:, 0]),
        right_P=np.searchsorted(numbers, pairs_P3[:, 1]),
        same_P=pairs_P3[:, 2] == 1,
    )


def _of_files(folder: Path, listed_pairs: Sequence[tuple[str, str, bool]]) -> Pairs:
    """Return pairs of files of `folder`, each a template: (left, right, same)."""
    names, place = np.unique([pair[:2] for pair in listed_pairs], return_inverse=True)
    left_P, right_P = place.reshape(-1, 2).astype(np.int64).T
    files, each_F = tuple(folder / str(name) for name in names), np.arange(len(names))
    return Pairs(files, each_F, each_F, left_P, right_P, np.array([same for _, _, same in listed_pairs]))


def _means(emb_ND: NDArray[np.floating], place_N: Ints, groups: int) -> NDArray[np.floating]:
    sums_GD = np.zeros((groups, emb_ND.shape[1]), emb_ND.dtype)
    np.add.at(sums_GD, place_N, emb_ND)
    return sums_GD / np.bincount(place_N, minlength=groups)[:, None].astype(emb_ND.dtype)


def read_pairs(path: Path) -> Pairs:
    """Read LFW's pairs.txt or folder, IJB-C's folder, or a CSV file with left,right,same.

    Paths in a CSV file start at its folder; `same` is 1 or 0. The pairs keep their order, since the folds of
    the accuracy are contiguous.
    """
    if path.suffix.lower() == ".csv" and os.path.isfile(path):
        return _table(path)
    folder = path.parent if path.name == "pairs.txt" else path
    if any(os.path.isfile(place / "pairs.txt") for place in (folder, folder / "lfw")):
        by_suffix = [lfw(folder, suffix) for suffix in SUFFIXES]
        return next((pairs for pairs in by_suffix if pairs.files[0].is_file()), by_suffix[0])
    if any(os.path.isfile(place / FACES) for place in (folder, folder / "IJBC")):
        return ijbc(folder)
    raise UserError(
        "--pairs must be LFW's pairs.txt, the folder of IJB-C, or a CSV file with the columns "
        f"{','.join(COLUMNS)}; got {readable(str(path))}"
    )


def pair_images(pairs: Pairs, listed: Path) -> ImageSet:
    """Return the files as a set of one class; a missing file is a UserError."""
    paths = [str(file.absolute()) for file in pairs.files]
    labels_N = np.zeros(len(paths), dtype=np.int64)
    return SOURCE.listing("test", listed.parent, listed, paths, labels_N, ("",)).image_set()


def scores(pairs: Pairs, emb_FD: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the cosine similarities of the templates, (P,), in blocks: there may be millions."""
    emb_TD = pairs.templates(emb_FD)
    score_P = np.empty(len(pairs.left_P), emb_TD.dtype)
    size = max(1, _BLOCK // max(1, emb_TD.shape[1]))
    for start in range(0, len(score_P), size):
        part = slice(start, start + size)
        np.einsum("pd,pd->p", emb_TD[pairs.left_P[part]], emb_TD[pairs.right_P[part]], out=score_P[part])
    return score_P


def _table(path: Path) -> Pairs:
    try:
        with open_regular(path, encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file, restval=""))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} cannot be read ({error})") from None
    if not rows or not set(COLUMNS) <= set(rows[0]):
        got = ",".join(name for name in rows[0] if name) if rows else "no pair"
        raise UserError(
            f"{path} must have the columns {','.join(COLUMNS)} and a line for each pair; got {got}"
        )
    listed_pairs = []
    for number, row in enumerate(rows, 2):
        answer = ANSWERS.get(row["same"].strip().lower())
        if answer is None:
            raise UserError(f"{path}, line {number}: same must be 1 or 0; got '{row['same']}'")
        listed_pairs.append((row["left"], row["right"], answer))
    return _of_files(path.parent, listed_pairs)
