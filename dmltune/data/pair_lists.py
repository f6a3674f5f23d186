"""Lists of pairs by their file: LFW's, IJB-C's, or one's own table; their images, and a score for each pair.

Legend: F files, T templates, P pairs, D dimensions.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dmltune.data.catalog._files import Source
from dmltune.data.files import open_regular
from dmltune.data.images import ImageSet
from dmltune.data.pairs import COMPARED, FACES, LFW, Pairs, ijbc, lfw
from dmltune.errors import UserError

COLUMNS = ("left", "right", "same")
ANSWERS = {"1": True, "0": False, "true": True, "false": False, "yes": True, "no": False}
SUFFIXES = (".jpg", ".png")  # of LFW's pictures: as they are published, as they are often aligned
SOURCE = Source("pairs", ("pairs",), ())
_BLOCK = 1 << 22
"""Numbers held at once."""


def read_pairs(path: Path) -> Pairs:
    """LFW's pairs.txt or its folder, the folder of IJB-C, or a CSV file with the columns left,right,same.

    The table's images are named from its own folder; `same` is 1 or 0. The order counts: the folds of the
    accuracy are contiguous.
    """
    if path.suffix.lower() == ".csv" and path.is_file():
        return _table(path)
    folder = path.parent if path.name == "pairs.txt" else path
    if any((place / "pairs.txt").is_file() for place in (folder, *(folder / name for name in LFW.folders))):
        found = [lfw(folder, suffix) for suffix in SUFFIXES]
        return next((pairs for pairs in found if pairs.files[0].is_file()), found[0])
    if any((place / FACES).is_file() and (place / COMPARED).is_file() for place in (folder, folder / "IJBC")):
        return ijbc(folder)
    raise UserError(
        "--pairs must be LFW's pairs.txt, the folder of IJB-C, or a CSV file with the columns "
        f"{','.join(COLUMNS)}; got {path}"
    )


def pair_images(pairs: Pairs, listed: Path) -> ImageSet:
    """The files as a set without classes, all there when it is made."""
    paths = [str(file.absolute()) for file in pairs.files]
    labels_N = np.zeros(len(paths), dtype=np.int64)
    listing = SOURCE.listing("test", listed.parent, paths, labels_N, ("",), within=Path("/"), listed=listed)
    return listing.image_set()


def scores(pairs: Pairs, emb_FD: NDArray[np.floating]) -> NDArray[np.floating]:
    """(P,) cosine similarities of the templates, block by block: lists may have millions of pairs."""
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
    same = []
    for number, row in enumerate(rows, 2):
        answer = ANSWERS.get(row["same"].strip().lower())
        if answer is None:
            raise UserError(f"{path}, line {number}: same must be 1 or 0; got '{row['same']}'")
        same.append(answer)
    names, place = np.unique([[row["left"], row["right"]] for row in rows], return_inverse=True)
    place_P2 = place.reshape(-1, 2).astype(np.int64)
    return Pairs(
        files=tuple(path.parent / str(name) for name in names),
        template_F=np.arange(len(names)),
        media_F=np.arange(len(names)),
        left_P=place_P2[:, 0],
        right_P=place_P2[:, 1],
        same_P=np.array(same),
    )
