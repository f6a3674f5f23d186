"""CUB-200-2011: 11,788 photos of 200 birds in the original layout. The first 100 classes train, the last 100
test."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
from PIL import Image

from dmltune.data.images import ImageSet, Ints, Part, Pixels, from_pil
from dmltune.errors import UserError

FOLDER = "CUB_200_2011"
LISTS = ("classes.txt", "images.txt", "image_class_labels.txt")
CLASSES: dict[Part, range] = {"train": range(1, 101), "test": range(101, 201)}  # the split every paper uses


def load(part: Part, root: Path | None = None) -> ImageSet:
    """`root` is the folder CUB_200_2011 or the one it is in. Only images of the part are looked at."""
    folder = find(root)
    classes, paths, labels = (_table(folder / name) for name in LISTS)
    wanted = [number for number in CLASSES[part] if str(number) in classes]
    position = {str(number): index for index, number in enumerate(wanted)}
    chosen = [image for image in paths if labels.get(image) in position]
    if len(wanted) < len(CLASSES[part]) or not chosen:
        raise UserError(
            f"cub: {folder} lists {len(wanted)} of the {len(CLASSES[part])} {part} classes and {len(chosen)}"
            " of their images; the copy is incomplete: fetch CUB_200_2011 again."
        )
    files = [folder / "images" / paths[image] for image in chosen]
    labels_N = np.array([position[labels[image]] for image in chosen], dtype=np.int64)
    names = tuple(classes[str(number)] for number in wanted)
    sizes = [_stat(file, folder) for file in files]
    listing = [(paths[image], size.st_size) for image, size in zip(chosen, sizes, strict=True)]

    def read(indices: Ints, side: int | None) -> list[Pixels]:
        return [decode(files[index], side) for index in indices]

    return ImageSet(
        name="cub",
        part=part,
        labels_N=labels_N,
        class_names=names,
        fingerprint=_hash(names, listing),  # of names and sizes: hashing the images themselves takes too long
        reader=read,
        key=_hash(str(folder.resolve()), listing, [size.st_mtime_ns for size in sizes]),
    )


def find(root: Path | None) -> Path:
    """The folder with the lists, or an error that says where it was looked for and what to do."""
    environment = os.environ.get("DMLTUNE_DATA")
    base = root or (Path(environment) if environment else None)
    if base is None:
        raise UserError(
            f"data set 'cub' needs the folder {FOLDER}; say where it is with --data-root or DMLTUNE_DATA."
        )
    for folder in (base / FOLDER, base):
        if all((folder / name).is_file() for name in LISTS):
            return folder
    raise UserError(
        f"no {FOLDER} (with {', '.join(LISTS)}) in {base}; say where it is with --data-root or DMLTUNE_DATA."
    )


def decode(file: Path, side: int | None) -> Pixels:
    """(H, W, 3). With `side` the JPEG is decoded at the smallest scale that is not below it, which is
    quicker."""
    try:
        with Image.open(file) as image:
            if side is not None:
                image.draft("RGB", (side, side))
            return from_pil(image.convert("RGB"))
    except OSError as error:
        raise UserError(f"cub: {file} cannot be read ({error}); fetch CUB_200_2011 again.") from error


def _table(file: Path) -> dict[str, str]:
    rows = (line.split(maxsplit=1) for line in file.read_text(encoding="utf-8").splitlines())
    return {row[0]: row[1].strip() for row in rows if len(row) == 2}


def _stat(file: Path, folder: Path) -> os.stat_result:
    try:
        return file.stat()
    except OSError as error:
        raise UserError(
            f"cub: {file} is listed in {folder / 'images.txt'} but missing; fetch it again."
        ) from error


def _hash(*content: object) -> str:
    return hashlib.sha256(repr(content).encode()).hexdigest()[:16]
