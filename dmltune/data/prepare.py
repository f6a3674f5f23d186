"""`dmltune data prepare NAME`: fetch, verify and unpack a data set.

The data set appears under its official name in one step when it is complete. Until then the data root has
only hidden folders: a later attempt continues `.NAME.download` and replaces `.NAME.partial`.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from dmltune.data import catalog
from dmltune.data.archives import LIMITS, Limits, require_room, unpack
from dmltune.data.catalog._files import Source
from dmltune.data.files import user_errors, workspace
from dmltune.data.images import ImageSet, Part
from dmltune.data.obtain import RELEASES, Pieces, Progress, by_hand, fetchable, fetched, given, step
from dmltune.errors import UserError
from dmltune.private import shared_files

DEEPEST = 3  # folders around a data set in an archive


@dataclass(frozen=True)
class PreparedData:
    """A data set that can be loaded. `notes` says what was done, a line each."""

    folder: Path
    classes: int
    images: int
    notes: tuple[str, ...]


def prepare(
    name: str, root: Path, archive: Path | None = None, progress: Progress | None = None
) -> PreparedData:
    """Make data set `name` in `root` from `archive` or the network; an existing one is kept."""
    catalog.require_name(name)
    source = getattr(importlib.import_module(f"{catalog.__name__}.{name}"), "SOURCE", None)
    if not isinstance(source, Source):
        return replace(_counted(name, root), notes=("nothing to fetch or unpack: it comes with dmltune",))
    with user_errors(f"{root} cannot be prepared"), shared_files():
        if existing := _existing(name, source, root):
            return existing
        pieces = None if archive is None else given(name, archive, progress)
        release = fetchable(name) if archive is None else None
        top = _top(source)
        downloads = root / f".{top}.download"
        with workspace(root / top) as place:
            if existing := _existing(name, source, root):  # made by another process meanwhile
                return existing
            if release:
                pieces = fetched(release, downloads, progress)
            assert pieces is not None
            made = _made(name, source, place, pieces, progress)
            (place / top).rename(root / top)
        if release:
            shutil.rmtree(downloads, ignore_errors=True)
    folder = root / source.folders[0]
    return replace(made, folder=folder, notes=(*pieces.notes, f"unpacked as {folder}", *made.notes))


def _existing(name: str, source: Source, root: Path) -> PreparedData | None:
    """Return the copy in `root`, or at `root` itself."""
    folder = _find(source, root)
    if folder is None:
        if os.path.lexists(root / _top(source)):
            raise UserError(
                f"{root / _top(source)} is not a complete {name}; move it away and prepare {name} again."
            )
        return None
    try:
        counted = _counted(name, root)
    except UserError as error:
        raise UserError(f"{error} Or move {folder} away and prepare {name} again.") from error
    return replace(counted, folder=folder, notes=(f"{folder} exists: nothing was done", *counted.notes))


def _find(source: Source, root: Path) -> Path | None:
    if source.layouts:
        with contextlib.suppress(UserError):
            return source.find(root)
        return None
    if (root / source.folders[0]).is_dir():
        return root / source.folders[0]
    return root if (root / "train").is_dir() else None


def _made(name: str, source: Source, place: Path, pieces: Pieces, progress: Progress | None) -> PreparedData:
    """Unpack into `place`, which becomes a data root, and load the data set from there."""
    require_room(place, pieces.size)
    unpacked = place / ".unpacked"
    for piece in pieces.files:
        into = unpacked / piece.place
        into.mkdir(parents=True, exist_ok=True)
        if piece.packed:
            unpack(piece.path, into, progress=step(progress, f"unpack {piece.path.name}"))
        else:
            shutil.copyfile(piece.path, into / piece.path.name)
    folder = _within(source, unpacked)
    if folder is None:
        lists = " or ".join(", ".join(layout) for layout in source.layouts[:2])
        raise UserError(f"{pieces.names} must have a folder with {lists}, and has none: {by_hand(name)}")
    for inner in {inner for release in RELEASES.get(name, ()) for inner in release.packed}:
        if (folder / inner).is_file():
            limits = Limits(total=LIMITS.room(pieces.size))  # shared with the outer archive
            unpack(folder / inner, (folder / inner).parent, limits, step(progress, f"unpack {inner}"))
            (folder / inner).unlink()
    whole = place / source.folders[0]
    whole.parent.mkdir(parents=True, exist_ok=True)
    folder.rename(whole)
    try:
        return _counted(name, place)
    except UserError as error:
        raise UserError(f"{error}".replace(f"{place}/", f"{pieces.names}/")) from error


def _within(source: Source, unpacked: Path) -> Path | None:
    """Return the folder of the data set, perhaps inside folders with nothing else."""
    place = unpacked
    for _ in range(DEEPEST):
        if source.layouts and (folder := _find(source, place)):
            return folder
        folders = [entry for entry in place.iterdir() if entry.is_dir() and entry.name[0] not in "._"]
        if len(folders) != 1 or (not source.layouts and folders[0].name == "train"):
            break
        place = folders[0]
    return None if source.layouts else place


def _counted(name: str, root: Path) -> PreparedData:
    """Load both halves and compare them with the published counts."""
    halves = [catalog.load(name, part, root) for part in get_args(Part)]
    return PreparedData(
        folder=root,
        classes=len({label for half in halves for label in half.class_names}),
        images=sum(len(half) for half in halves),
        notes=tuple(_verdict(name, half) for half in halves),
    )


def _verdict(name: str, half: ImageSet) -> str:
    lacking = catalog.lacking(half)
    known = half.part in catalog.published(name)
    verdict = f"; NOT as published: {lacking}" if lacking else ", as published" if known else ""
    return f"{half.part}: {len(half):,} images of {half.num_classes:,} classes{verdict}"


def _top(source: Source) -> str:
    """Return the name that appears in the data root: MNIST of MNIST/raw."""
    return Path(source.folders[0]).parts[0]
