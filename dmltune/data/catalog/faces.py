"""faces: faces/train/PERSON/*.jpg and faces/test/PERSON/*.jpg.

Without a folder train every folder but test is a person to train on. The images are aligned faces, or a file
faces/landmarks.txt says where the face of each is (`data/alignment.py` has the format); they are aligned when
they are read, to 112×112 pixels or the size that is asked for.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from dmltune.data.alignment import aligned, landmarks_in
from dmltune.data.catalog._files import REMEDY, Listing, Source
from dmltune.data.images import Part
from dmltune.errors import UserError, readable

FOLDER = "faces"
SOURCE = Source("faces", (FOLDER,), ())
SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".webp"}


def load(part: Part, root: Path | None = None) -> Listing:
    """List the images of a part; `root` has the folder faces, or is this folder."""
    folder = base = SOURCE.base(root)
    if os.path.isdir(base / FOLDER):
        folder = base / FOLDER
    elif not os.path.isdir(base / "train"):
        raise UserError(f"no {FOLDER} (with a folder for each person) in {readable(str(base))}; {REMEDY}")
    within = folder / part
    if part == "test" and not within.is_dir():
        raise UserError(f"faces: no people to test on; put a folder for each into {within}.")
    people = folder if part == "train" and not within.is_dir() else within
    paths: list[str] = []
    labels: list[int] = []
    names: list[str] = []
    for person in sorted(entry for entry in people.iterdir() if entry.is_dir()):
        if person.name.startswith(".") or (people == folder and person.name == "test"):
            continue
        files = sorted(file.name for file in person.iterdir() if file.suffix.lower() in SUFFIXES)
        paths += [f"{person.name}/{name}" for name in files]
        labels += [len(names)] * len(files)
        names += [person.name] if files else []
    if not paths:
        raise UserError(f"faces: no image in the folders of {people}; put a folder for each person there.")
    labels_N = np.array(labels, dtype=np.int64)
    # aligned and cropped already: evaluation uses the whole frame
    listing = SOURCE.listing(part, people, people, paths, labels_N, names, margin=1.0)
    landmarks = landmarks_in(folder)
    if landmarks is None:
        return listing
    within_folder = "" if people == folder else f"{part}/"
    return aligned(listing, landmarks, [f"{within_folder}{path}" for path in paths])
