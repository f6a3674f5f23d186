"""List the data sets, where they are, and how to get those that are missing."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from dmltune.data import catalog
from dmltune.data.catalog._files import Source
from dmltune.data.images import Part
from dmltune.data.obtain import RELEASES, files_of_releases
from dmltune.errors import UserError

State = Literal["found", "made", "missing", "yours"]


@dataclass(frozen=True)
class DatasetEntry:
    """A data set of the catalogue.

    State "made" needs no download. Counts are of the copy, else those that were published, else None.
    `lacking` compares the copy with what was published; `get` is the command that gets the data set.
    """

    name: str
    about: str
    state: State
    images: int | None
    classes: int | None
    folder: Path | None = None
    lacking: str = ""
    missing: str = ""
    get: str = ""


def survey(root: Path | None = None, names: Sequence[str] = ()) -> Iterator[DatasetEntry]:
    """Yield every set of the catalogue, or those named; lists are read, images are not."""
    for name in names or catalog.names():
        catalog.require_name(name)
        yield _entry(name, root)


def _entry(name: str, root: Path | None) -> DatasetEntry:
    module = importlib.import_module(f"{catalog.__name__}.{name}")
    about = " ".join((module.__doc__ or "").split()).split(". ")[0].rstrip(".")  # the first sentence
    if name == "own":
        return DatasetEntry(name, about, "yours", None, None, get="data.name=own data.path=./photos")
    source = getattr(module, "SOURCE", None)
    try:
        halves = {part: catalog.files(name, part, root)[0] for part in get_args(Part)}
    except UserError as error:
        parts = catalog.published(name).values()
        images, classes = (_total(numbers) for numbers in zip(*parts, strict=True)) if parts else (None, None)
        return DatasetEntry(name, about, "missing", images, classes, missing=str(error), get=_how(name))
    lacking = "; ".join(f"{part}: {less}" for part in halves if (less := catalog.lacking(halves[part])))
    state: State = "made" if source is None else "found"
    counts = sum(map(len, halves.values())), sum(half.num_classes for half in halves.values())
    return DatasetEntry(name, about, state, *counts, folder=_folder(source, root), lacking=lacking)


def _total(numbers: Sequence[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


def _how(name: str) -> str:
    """Return the command, with the site and the files that only a person can get."""
    command = f"dmltune data prepare {name}"
    if any(release.fetchable for release in RELEASES.get(name, ())):
        return command
    files = files_of_releases(name)
    return f"{command} --archive FILE" + (f" with {files}" if files else "")


def _folder(source: object, root: Path | None) -> Path | None:
    """Return the folder with the lists; faces have no lists, and return the data root."""
    if not isinstance(source, Source):
        return None
    return (source.find(root) if source.layouts else source.base(root)).absolute()
