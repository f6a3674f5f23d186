"""The published data sets, from `sources.yaml`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ruamel.yaml import YAML


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
    for name, releases in YAML(typ="safe").load(Path(__file__).with_suffix(".yaml")).items()
}
