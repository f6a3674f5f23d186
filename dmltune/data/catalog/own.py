"""own: your own images at data.path, in class folders or listed in a table.

A table has the columns path and label, and optionally category and split; paths start at its folder. Without
folders train and test, or a column split, a hash of a class's name decides which half it is in: classes that
are added later move no other class. Classes with one image stay: in training as negatives, in the test half
as images to be confused with.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from dmltune.data.catalog import _own_folders, _own_tables
from dmltune.data.catalog._files import Listing, Source
from dmltune.data.catalog._own_folders import SPLITS, ImageRow, deal
from dmltune.data.decoding import on_white, rgb
from dmltune.data.images import Part
from dmltune.errors import UserError, readable

FORMS = (
    "a folder with a folder for each class, or a .csv, .tsv or .parquet file with the columns path and label"
)


@dataclass(frozen=True)
class OwnSource(Source):
    """Own images. EXIF rotation is applied, and transparency becomes white."""

    places: Mapping[Path, str] = field(default_factory=dict)  # where a file is listed: photos.csv:7

    def broken(self, what: str) -> UserError:
        return UserError(f"own: {what}; put it right or take it out.")

    def absent(self, file: Path, listed: Path, error: OSError) -> UserError:
        if place := self.places.get(file):
            return UserError(f"{place}: no image {file} ({error.strerror}); put it back or delete the line.")
        return self.broken(f"{file} cannot be read ({error.strerror})")

    @staticmethod
    def converted(image: Image.Image) -> Image.Image:
        ImageOps.exif_transpose(image, in_place=True)
        return on_white(image) if image.has_transparency_data else rgb(image)


def load(part: Part, root: Path | None = None, path: str | Path | None = None) -> Listing:
    """List the images of a half; `path` is their folder or table, `root` is not used."""
    if not path:
        raise UserError(f"data set 'own' needs data.path: {FORMS}.")
    place = Path(os.path.expanduser(path))
    if os.path.isdir(place):
        within, rows = place, _own_folders.rows(place, part)
    elif place.suffix.lower() in _own_tables.SUFFIXES and os.path.isfile(place):
        within, rows = place.parent, _own_tables.rows(place)
    else:
        missing = "" if os.path.exists(place) else ", which does not exist"
        raise UserError(f"data.path must be {FORMS}; got {readable(str(place))}{missing}.")
    dealt = deal({row.label for row in rows if not row.split})
    chosen = [row for row in rows if (SPLITS.get(row.split) or dealt[row.label]) == part]
    if not chosen:
        raise _empty(place, part, rows)
    classes, labels_N = np.unique([row.label for row in chosen], return_inverse=True)
    categories = sorted({row.category for row in chosen} - {""})
    number = {category: index for index, category in enumerate(categories)}
    category_N = np.array([number.get(row.category, -1) for row in chosen], dtype=np.int64)
    has_queries = part == "test" and any(row.split == "query" for row in chosen)
    places = {within / row.path: row.place for row in chosen if row.place}
    return OwnSource("own", (str(place),), (), places).listing(
        part,
        within,
        place,
        [row.path for row in chosen],
        labels_N.astype(np.int64),
        classes.tolist(),
        details=[[(row.label, row.category, row.split) for row in chosen]],
        category_N=category_N if categories else None,
        category_names=tuple(categories),
        query_N=np.array([row.split == "query" for row in chosen]) if has_queries else None,
    )


def _empty(place: Path, part: Part, rows: list[ImageRow]) -> UserError:
    splits = _own_folders.split_folders(place) if place.is_dir() else ()
    if splits:
        folder = place / (part if part in splits or "query" not in splits else "gallery")
        return UserError(f"own: no image in {folder}; put a folder for each class there, with its images.")
    if any(row.split for row in rows):
        return UserError(f"own: {place} has no image with split {part}; give some classes this split.")
    return UserError(
        f"own: {place} has no class for the {part} half; add classes, or define the halves with folders train"
        " and test, or with a column split."
    )
