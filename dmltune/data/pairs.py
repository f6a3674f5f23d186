"""Pairs of images to be compared: a published list of faces or a table; for `core.verification`.

Legend: F files, P pairs, D dimensions.
"""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dmltune.data.alignment import aligned
from dmltune.data.catalog._files import Source
from dmltune.data.files import open_regular
from dmltune.data.images import ImageSet
from dmltune.data.pair_lists import FACES, POINTS, SPLITS, SUFFIXES, YTF, Pairs, ijbc, lfw, of_files, ytf
from dmltune.errors import UserError, readable

COLUMNS = ("left", "right", "same")
ANSWERS = {"1": True, "0": False, "true": True, "false": False, "yes": True, "no": False}
SOURCE = Source("pairs", ("pairs",), ())
_BLOCK = 1 << 22  # numbers in memory at once


def read_pairs(path: Path) -> Pairs:
    """Read LFW's or YouTube Faces' list or folder, IJB-C's folder, or a CSV file with left,right,same.

    Paths in a CSV file start at its folder; `same` is 1 or 0. The pairs keep their order, since the folds of
    the accuracy are contiguous.
    """
    if path.suffix.lower() == ".csv" and os.path.isfile(path):
        return _table(path)
    folder = path.parent if path.name in ("pairs.txt", SPLITS) else path
    if any(os.path.isfile(place / "pairs.txt") for place in (folder, folder / "lfw")):
        by_suffix = [lfw(folder, suffix) for suffix in SUFFIXES]
        return next((pairs for pairs in by_suffix if pairs.files[0].is_file()), by_suffix[0])
    if any(os.path.isfile(place / FACES) for place in (folder, folder / "IJBC")):
        return ijbc(folder)
    if any(os.path.isfile(folder / name / SPLITS) for name in (".", *YTF.folders)):
        return ytf(folder)
    raise UserError(
        "--pairs must be LFW's pairs.txt, YouTube Faces' splits.txt, the folder of IJB-C, or a CSV file with "
        "the columns "
        f"{','.join(COLUMNS)}; got {readable(str(path))}"
    )


def pair_images(pairs: Pairs, listed: Path) -> ImageSet:
    """Return the files as a set of one class, aligned where there are landmarks; a missing file is a
    UserError.
    """
    paths = [str(file.absolute()) for file in pairs.files]
    labels_N = np.zeros(len(paths), dtype=np.int64)
    listing = SOURCE.listing("test", listed.parent, listed, paths, labels_N, ("",))
    if pairs.landmarks is not None:
        names = [os.path.relpath(file, pairs.folder) for file in pairs.files]
        scored = pairs.landmarks.name == Path(POINTS).name  # a detector's score is the last column
        listing = aligned(listing, pairs.landmarks, names, trailing=int(scored))
    return listing.image_set()


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
    return of_files(path.parent, listed_pairs)
