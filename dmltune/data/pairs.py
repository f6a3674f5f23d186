"""Which faces are compared: the pairs of LFW, and the templates of IJB-C (what `core.verification` measures).

Legend: F files, T templates, P pairs, M media, D dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dmltune.data.catalog._files import Source, dense
from dmltune.data.images import Ints

LFW = Source("lfw", ("lfw",), (("pairs.txt",),))
FACES, COMPARED = "meta/ijbc_face_tid_mid.txt", "meta/ijbc_template_pair_label.txt"
IJBC = Source("ijbc", ("IJBC",), ((FACES, COMPARED),))


@dataclass(frozen=True, eq=False)
class Pairs:
    """Templates left_P and right_P are compared. A template is some files: one in LFW, all pictures and video
    frames of somebody in IJB-C, where media_F tells which are of the same video.

    The pairs keep their order: the folds of LFW are contiguous.
    """

    files: tuple[Path, ...]
    template_F: Ints
    media_F: Ints
    left_P: Ints
    right_P: Ints
    same_P: NDArray[np.bool_]

    def templates(self, emb_FD: NDArray[np.floating]) -> NDArray[np.floating]:
        """(T, D) of length 1: the mean of a template's media, each the mean of its files, so that a long
        video does not outvote the pictures."""
        both = np.stack([self.template_F, self.media_F], axis=1)
        media_M2, place_F = np.unique(both, axis=0, return_inverse=True)
        emb_MD = _means(emb_FD, place_F.ravel(), len(media_M2))
        emb_TD = _means(emb_MD, media_M2[:, 0], int(self.template_F.max()) + 1)
        lengths_T1: NDArray[np.floating] = np.linalg.norm(emb_TD, axis=1, keepdims=True)
        unit_TD: NDArray[np.floating] = emb_TD / lengths_T1
        return unit_TD


def lfw(root: Path | None = None, suffix: str = ".jpg") -> Pairs:
    """`root` is the folder with pairs.txt and a folder for each person, or the one that has it as `lfw`."""
    folder = LFW.find(root)
    listed = folder / "pairs.txt"
    lines = [line.split() for line in LFW.lines(listed)[1:]]  # the first tells folds and pairs
    found: list[tuple[str, str, bool]] = []
    for number, fields in enumerate(lines, 2):
        if len(fields) == 3:
            name, first, second = fields
            found.append((_lfw_file(name, first), _lfw_file(name, second), True))
        elif len(fields) == 4:
            found.append((_lfw_file(*fields[:2]), _lfw_file(*fields[2:]), False))
        elif fields:
            raise LFW.broken(f"{listed}, line {number}: 3 or 4 columns expected, got {len(fields)}")
    if not found:
        raise LFW.broken(f"{listed} lists no pair")
    names, place = np.unique([pair[:2] for pair in found], return_inverse=True)
    place_P2 = place.reshape(-1, 2).astype(np.int64)
    return Pairs(
        files=tuple(folder / f"{name}{suffix}" for name in names),
        template_F=np.arange(len(names)),
        media_F=np.arange(len(names)),
        left_P=place_P2[:, 0],
        right_P=place_P2[:, 1],
        same_P=np.array([pair[2] for pair in found]),
    )


def ijbc(root: Path | None = None) -> Pairs:
    """`root` is the folder with meta and loose_crop, or the one that has it as `IJBC`."""
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


def _lfw_file(name: str, number: str) -> str:
    """`Aaron_Peirsol 1` → Aaron_Peirsol/Aaron_Peirsol_0001."""
    if not number.isdecimal():
        raise LFW.broken(f"pairs.txt has '{number}' where the number of a picture of {name} belongs")
    return f"{name}/{name}_{int(number):04d}"


def _means(emb_ND: NDArray[np.floating], place_N: Ints, groups: int) -> NDArray[np.floating]:
    sums_GD = np.zeros((groups, emb_ND.shape[1]), emb_ND.dtype)
    np.add.at(sums_GD, place_N, emb_ND)
    return sums_GD / np.bincount(place_N, minlength=groups)[:, None].astype(emb_ND.dtype)
