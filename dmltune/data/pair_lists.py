"""Published lists of pairs of faces: LFW, YouTube Faces, IJB-C.

Legend: F files, T templates, P pairs, M media, D dimensions.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dmltune.data.alignment import landmarks_in
from dmltune.data.catalog._files import Source, dense
from dmltune.data.images import Ints
from dmltune.errors import readable

LFW = Source("lfw", ("lfw",), (("pairs.txt",),))
FACES, COMPARED = "meta/ijbc_face_tid_mid.txt", "meta/ijbc_template_pair_label.txt"
POINTS, CROPS = "meta/ijbc_name_5pts_score.txt", "loose_crop"  # landmarks, and the folder of the images
IJBC = Source("ijbc", ("IJBC",), ((FACES, COMPARED),))
SPLITS = "splits.txt"
COLUMNS_OF_SPLITS = ("split number", "first name", "second name", "is same")
FRAMES = ("aligned_images_DB", "frame_images_DB")  # PERSON/VIDEO/FRAME.jpg
YTF = Source("ytf", ("YouTubeFaces", "ytf"), ((SPLITS,),))
SUFFIXES = (".jpg", ".png")  # of LFW: as published, and as often aligned


@dataclass(frozen=True, eq=False)
class Pairs:
    """Templates left_P and right_P are compared; same_P says whether they are of one person.

    A template is one file in LFW and all frames of a video in YouTube Faces. In IJB-C it is all pictures and
    video frames of a person, and files of one video have the same media_F. The pairs keep their order, since
    folds are contiguous. The faces are aligned by `landmarks`, which has the paths from `folder`.
    """

    files: tuple[Path, ...]
    template_F: Ints
    media_F: Ints
    left_P: Ints
    right_P: Ints
    same_P: NDArray[np.bool_]
    folder: Path
    landmarks: Path | None = None

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


def _means(emb_ND: NDArray[np.floating], place_N: Ints, groups: int) -> NDArray[np.floating]:
    sums_GD = np.zeros((groups, emb_ND.shape[1]), emb_ND.dtype)
    np.add.at(sums_GD, place_N, emb_ND)
    return sums_GD / np.bincount(place_N, minlength=groups)[:, None].astype(emb_ND.dtype)


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
    return of_files(folder, listed_pairs)


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
        files=tuple(folder / CROPS / row[0] for row in rows),
        template_F=template_F,
        media_F=IJBC.numbers(folder / FACES, [row[2] for row in rows]),
        left_P=np.searchsorted(numbers, pairs_P3[:, 0]),
        right_P=np.searchsorted(numbers, pairs_P3[:, 1]),
        same_P=pairs_P3[:, 2] == 1,
        folder=folder / CROPS,
        landmarks=points if (points := folder / POINTS).is_file() else None,
    )


def ytf(root: Path | None = None) -> Pairs:
    """Read the pairs of videos of YouTube Faces; `root` is the folder with splits.txt, or has it.

    The frames are those of the aligned images, where they are there. A template is the mean of a video.
    """
    folder = YTF.find(root)
    listed = folder / SPLITS
    frames = next((folder / name for name in FRAMES if (folder / name).is_dir()), None)
    if frames is None:
        raise YTF.broken(f"{folder} has none of the folders {', '.join(FRAMES)}")
    listed_pairs = _video_pairs(listed)
    names, place = np.unique([pair[:2] for pair in listed_pairs], return_inverse=True)
    files: list[Path] = []
    template_F: list[int] = []
    for video, name in enumerate(map(str, names)):
        if not os.path.isdir(frames / name):
            raise YTF.broken(f"{frames / name} is listed in {listed} but missing")
        own = sorted(file for file in (frames / name).iterdir() if file.suffix.lower() in SUFFIXES)
        if not own:
            raise YTF.broken(f"{frames / name} has no frame ({', '.join(SUFFIXES)})")
        files += own
        template_F += [video] * len(own)
    video_F, same_P = np.array(template_F), np.array([same for _, _, same in listed_pairs])
    left_P, right_P = place.reshape(-1, 2).astype(np.int64).T
    return Pairs(tuple(files), video_F, video_F, left_P, right_P, same_P, folder, landmarks_in(folder))


def _video_pairs(listed: Path) -> list[tuple[str, str, bool]]:
    """Return (video, video, same) of each line, in the order of the splits.

    The first line names the columns, which releases of the list have in different number.
    """
    header, *lines = YTF.lines(listed) or [""]
    columns = [name.strip().lower().rstrip("?") for name in header.split(",")]
    if absent := [name for name in COLUMNS_OF_SPLITS if name not in columns]:
        raise YTF.broken(f"{listed} must name its columns in the first line; it lacks {', '.join(absent)}")
    places = [columns.index(name) for name in COLUMNS_OF_SPLITS]
    rows: list[tuple[int, str, str, bool]] = []
    for number, line in enumerate(lines, 2):
        fields = [field.strip() for field in line.split(",")]
        if not any(fields):
            continue
        split, left, right, same = (fields[place] if place < len(fields) else "" for place in places)
        if not (split.isdecimal() and left and right and same in ("0", "1")):
            raise YTF.broken(
                f"{listed}, line {number}: the number of a split, two videos and 0 or 1 expected; "
                f"got {readable(line)}"
            )
        rows.append((int(split), left, right, same == "1"))
    if not rows:
        raise YTF.broken(f"{listed} lists no pair")
    return [(left, right, same) for _, left, right, same in sorted(rows, key=lambda row: row[0])]


def of_files(folder: Path, listed_pairs: Sequence[tuple[str, str, bool]]) -> Pairs:
    """Return pairs of files of `folder`, each a template: (left, right, same)."""
    names, place = np.unique([pair[:2] for pair in listed_pairs], return_inverse=True)
    left_P, right_P = place.reshape(-1, 2).astype(np.int64).T
    files, each_F = tuple(folder / str(name) for name in names), np.arange(len(names))
    same_P = np.array([same for _, _, same in listed_pairs])
    return Pairs(files, each_F, each_F, left_P, right_P, same_P, folder, landmarks_in(folder))
