"""Get and verify the files of a published data set, from the network or --archive."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ruamel.yaml import YAML

from dmltune.data.archives import require_room
from dmltune.data.download import arrived, download, verify_file
from dmltune.data.files import amount
from dmltune.errors import UserError

ARCHIVES = (".zip", ".tar", ".tgz", ".tar.gz", ".tbz2", ".tar.bz2", ".txz", ".tar.xz")
Progress = Callable[[str, int, int], None]  # activity, bytes done, all bytes (0: not known)


@dataclass(frozen=True)
class File:
    """A published file; its checksum is "md5:…", "sha256:…" or not known."""

    name: str
    url: str = ""
    size: int | None = None
    checksum: str = ""
    place: str = "."


@dataclass(frozen=True)
class Release:
    """One of the published forms of a data set, which needs all of `files`."""

    home: str
    files: tuple[File, ...]
    packed: tuple[str, ...] = ()

    @property
    def fetchable(self) -> bool:
        return all(file.url for file in self.files)


RELEASES: dict[str, tuple[Release, ...]] = {
    name: tuple(
        Release(
            release["home"],
            tuple(File(**file) for file in release["files"]),
            tuple(release.get("packed", ())),
        )
        for release in releases
    )
    for name, releases in YAML(typ="safe").load(Path(__file__).with_name("sources.yaml")).items()
}


@dataclass(frozen=True)
class Piece:
    """A file of a release at `path`; `file` is None for an archive of the user."""

    path: Path
    file: File | None = None

    @property
    def place(self) -> str:
        return self.file.place if self.file else "."

    @property
    def packed(self) -> bool:
        return self.file is None or self.file.name.lower().endswith(ARCHIVES)


@dataclass(frozen=True)
class Pieces:
    """All files of a data set, and notes for the user, a line each."""

    files: tuple[Piece, ...]
    notes: tuple[str, ...]

    @property
    def names(self) -> str:
        return ", ".join(piece.path.name for piece in self.files)

    @property
    def size(self) -> int:
        return sum(piece.path.stat().st_size for piece in self.files)


def fetchable(name: str) -> Release:
    """Return the release of a data set that a program can fetch."""
    for release in RELEASES.get(name, ()):
        if release.fetchable:
            return release
    raise UserError(f"{name} cannot be fetched by a program: {by_hand(name)}")


def fetched(release: Release, folder: Path, progress: Progress | None) -> Pieces:
    """Download the files of `release` into `folder`, except those of an earlier attempt."""
    size = sum(file.size or 0 for file in release.files)
    have = sum(arrived(folder / file.name) for file in release.files)
    whole = sum((folder / file.name).is_file() and (file.size or 0) for file in release.files)
    require_room(folder.parent, 2 * size - have - whole)  # packed and unpacked: photos hardly shrink
    notes = []
    try:
        for file in release.files:
            target = folder / file.name
            if not target.is_file():
                download(file.url, target, file.checksum, file.size, step(progress, f"fetch {file.name}"))
            notes.append(f"fetched {file.name}, {amount(target.stat().st_size)}, as published")
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()  # if it is empty
    return Pieces(tuple(Piece(folder / file.name, file) for file in release.files), tuple(notes))


def given(name: str, archive: Path, progress: Progress | None) -> Pieces:
    """Return the files that --archive names, verified.

    It is a published file beside the other files of its release, a folder with all of them, or an archive of
    the user, about which nothing is known.
    """
    if not os.path.exists(archive):
        raise UserError(f"--archive must be an existing file; got {archive}: {by_hand(name)}")
    beside = archive if archive.is_dir() else archive.parent
    for release in RELEASES.get(name, ()):
        names = [file.name for file in release.files]
        missing = [file for file in names if not (beside / file).is_file()]
        if archive.name in names and missing:
            raise UserError(
                f"{name} is published as {', '.join(names)}; {beside} has no {', '.join(missing)}: put all of"
                f" them into one folder. They are at {release.home}."
            )
        if archive.name in names or (archive.is_dir() and not missing):
            notes = tuple(_verified(beside / file.name, file, progress) for file in release.files)
            return Pieces(tuple(Piece(beside / file.name, file) for file in release.files), notes)
    if archive.is_dir():
        raise UserError(f"{archive} lacks files of every release of {name}: {by_hand(name)}")
    return Pieces((Piece(archive),), (f"{archive.name} is not a published file: its checksum is not known",))


def by_hand(name: str) -> str:
    """Return how a person gets the files."""
    if not (files := files_of_releases(name)):
        return f"put a folder '{name}' into the data root, or name an archive of it with --archive."
    return f"get {files}, and name it with --archive."


def files_of_releases(name: str) -> str:
    """Return the files of each release: `a.zip and b.zip (from https://…), or c.tgz (from …)`."""
    return ", or ".join(
        f"{' and '.join(file.name for file in release.files)} (from {release.home})"
        for release in RELEASES.get(name, ())
    )


def step(progress: Progress | None, what: str) -> Callable[[int, int], None] | None:
    return None if progress is None else lambda done, total: progress(what, done, total)


def _verified(path: Path, file: File, progress: Progress | None) -> str:
    try:
        verify_file(path, file.checksum, file.size, step(progress, f"verify {path.name}"))
    except UserError as error:
        raise UserError(f"{error} If it is an archive of your own, rename it.") from error
    return f"{path.name} " + ("is as published" if file.checksum else "has no published checksum")
