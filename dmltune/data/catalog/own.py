"""own: anyone's images, at data.path: a folder with a folder for each class, or a CSV or Parquet table.

A table has the columns path and label, perhaps category and split; a path in it starts at the table's folder.
Where nothing says which classes test (folders train and test, or a column split), about half do: a hash of a
class's name decides, so classes that are added later move no other. Classes with one image are kept: to train
with it is something that others must keep away from, in the test half something to be confused with.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from dmltune.data.catalog import _own_folders, _own_tables
from dmltune.data.catalog._files import Source
from dmltune.data.catalog._own_rows import ImageRow, deal, half_of
from dmltune.data.images import ImageSet, Part, Pixels, from_pil
from dmltune.errors import UserError

FORMS = (
    "a folder with a folder for each class, or a .csv, .tsv or .parquet file with the columns path and label"
)


@dataclass(frozen=True)
class OwnSource(Source):
    """Own files are put right, not fetched again; cameras turn their photos, products stand on no ground."""

    places: Mapping[Path, str] = field(default_factory=dict)  # where a file is listed: photos.csv:7

    def broken(self, what: str) -> UserError:
        return UserError(f"own: {what}; put it right or take it out.")

    def _stat(self, file: Path, listed: Path) -> os.stat_result:
        try:
            return file.stat()
        except OSError as error:
            place = self.places.get(file, str(listed))
            raise UserError(f"{place}: no image {file}; put it back or take it out of the list.") from error

    def _decode(self, file: Path, side: int | None) -> Pixels:
        try:
            with Image.open(file) as image:
                if side is not None:
                    image.draft("RGB", (side, side))
                return from_pil(_upright(image))
        except (OSError, SyntaxError, ValueError, struct.error) as error:
            raise self.broken(f"{file} cannot be read ({error})") from error


def load(part: Part, root: Path | None = None, path: str | Path | None = None) -> ImageSet:
    """`root` is not needed: `path` is where the images are, or the table that lists them."""
    place = Path(os.path.expanduser(path)) if path else None
    if place is None:
        raise UserError(f"data set 'own' needs data.path: {FORMS}.")
    if place.is_dir():
        within, rows = place, _own_folders.rows(place, part)
    elif place.suffix.lower() in _own_tables.SUFFIXES and place.is_file():
        within, rows = place.parent, _own_tables.rows(place)
    else:
        there = "" if place.exists() else ", which is not there"
        raise UserError(f"data.path must be {FORMS}; got {place}{there}.")
    dealt = deal({row.label for row in rows if not row.split})
    chosen = [row for row in rows if half_of(row, dealt) == part]
    if not chosen:
        raise _empty(place, part, rows)
    classes, labels_N = np.unique([row.label for row in chosen], return_inverse=True)
    kinds = sorted({row.category for row in chosen} - {""})
    number = {kind: index for index, kind in enumerate(kinds)}
    category_N = np.array([number.get(row.category, -1) for row in chosen], dtype=np.int64) if kinds else None
    asks = part == "test" and any(row.split == "query" for row in chosen)
    source = OwnSource(
        "own", (str(place),), (), {within / row.path: row.place for row in chosen if row.place}
    )
    return source.images(
        part,
        within,
        [row.path for row in chosen],
        labels_N.astype(np.int64),
        classes.tolist(),
        within=within,
        listed=place,
        details=[[(row.label, row.category, row.split) for row in chosen]],
        category_N=category_N,
        category_names=tuple(kinds),
        query_N=np.array([row.split == "query" for row in chosen]) if asks else None,
    )


def _empty(place: Path, part: Part, rows: list[ImageRow]) -> UserError:
    splits = _own_folders.told(place) if place.is_dir() else ()
    if splits:
        folder = place / (part if part in splits or "query" not in splits else "gallery")
        return UserError(f"own: no image in {folder}; put a folder for each class there, with its images.")
    if any(row.split for row in rows):
        return UserError(f"own: {place} has no image with split {part}; give some classes this split.")
    return UserError(
        f"own: {place} has no class for the {part} half; add classes, or say which train and which test: "
        "with folders train and test, or a column split."
    )


def _upright(image: Image.Image) -> Image.Image:
    """RGB as people see it: turned as the camera says, what is transparent white."""
    turned = ImageOps.exif_transpose(image)
    if not turned.has_transparency_data:
        return turned.convert("RGB")
    ground = Image.new("RGBA", turned.size, "white")
    ground.alpha_composite(turned.convert("RGBA"))
    return ground.convert("RGB")
