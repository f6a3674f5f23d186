"""What the loaders of photos share: find a copy, read its lists, and read its images."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import PIL
from PIL import Image

from dmltune.data.cache import cached
from dmltune.data.decoding import UnreadableImageError, decode, opened_file, rgb
from dmltune.data.files import open_regular, regular_stat
from dmltune.data.images import ImageSet, Ints, Missing, Part, Pixels, short_hash
from dmltune.errors import UserError, parse_json, printable, readable

logger = logging.getLogger(__name__)

REMEDY = "say where it is with --data-root or DMLTUNE_DATA."
SMALLEST = 8  # pixels: a JPEG is verified at an eighth of its size
NAMED = 5  # skipped images in the log


@dataclass(frozen=True)
class Source:
    """A published data set.

    A copy is in one of `folders`, the official name first, and has all files of one of the `layouts`.
    """

    name: str
    folders: tuple[str, ...]
    layouts: tuple[tuple[str, ...], ...]

    def find(self, root: Path | None) -> Path:
        """Return the folder of the copy: `root` or $DMLTUNE_DATA, or a folder in it."""
        base = self.base(root)
        for folder in (*(base / name for name in self.folders), base):
            if any(all(os.path.isfile(folder / file) for file in layout) for layout in self.layouts):
                return folder
        lists = " or ".join(", ".join(layout) for layout in self.layouts)
        raise UserError(f"no {self.folders[0]} (with {lists}) in {readable(str(base))}; {REMEDY}")

    def base(self, root: Path | None) -> Path:
        environment = os.environ.get("DMLTUNE_DATA")
        if root is None and not environment:
            raise UserError(f"data set '{self.name}' needs the folder {self.folders[0]}; {REMEDY}")
        return root or Path(environment or "")

    def broken(self, what: str) -> UserError:
        return UserError(f"{self.name}: {what}; fetch {self.folders[0]} again.")

    def lines(self, file: Path) -> list[str]:
        try:
            with open_regular(file, encoding="utf-8") as stream:
                return list(stream.read().splitlines())
        except (OSError, UnicodeDecodeError) as error:
            raise self.broken(f"{file} cannot be read ({error})") from error

    def table(self, file: Path, columns: int, header: int = 0) -> list[list[str]]:
        """Return the fields of every line after the header; blank lines are skipped."""
        rows = []
        for number, line in enumerate(self.lines(file)[header:], header + 1):
            fields = line.split()
            if fields and len(fields) != columns:
                raise self.broken(f"{file}, line {number}: {columns} columns expected, got {len(fields)}")
            if fields:
                rows.append(fields)
        if not rows:
            raise self.broken(f"{file} lists no image")
        return rows

    def numbers(self, file: Path, fields: Sequence[str]) -> Ints:
        try:
            return np.array([int(field) for field in fields], dtype=np.int64)
        except ValueError as error:
            raise self.broken(f"{file} has text in place of a number ({error})") from error

    def listing(
        self,
        part: Part,
        folder: Path,
        listed: Path,
        paths: Sequence[str],
        labels_N: Ints,
        class_names: Sequence[str],
        details: Sequence[object] = (),
        within: str = "",
        **more: Any,
    ) -> Listing:
        """Return the set of the files `folder / within / path`. `more` goes to the ImageSet.

        `details` is part of the fingerprint, for data whose paths do not tell the class.
        """
        files = [folder / within / path for path in paths]

        def read(indices: Ints, side: int | None) -> list[Pixels]:
            return [self.decode(files[index], side) for index in indices]

        images = ImageSet(self.name, part, labels_N, tuple(class_names), "", read, **more)
        return Listing(images, files, self, folder, paths, listed, details)

    def absent(self, file: Path, listed: Path, error: OSError) -> UserError:
        """Return the error for a listed file that is missing or not a regular file."""
        what = "missing" if isinstance(error, FileNotFoundError) else f"cannot be read ({error.strerror})"
        return UserError(f"{self.name}: {file} is listed in {listed} but {what}; fetch it again.")

    def decode(
        self, file: Path, side: int | None, convert: Callable[[Image.Image], Image.Image] | None = None
    ) -> Pixels:
        """Return the pixels (H, W, 3) after `convert`, scaled down to a shorter side of `side`."""
        try:
            return decode(file, convert or self.converted, side)
        except UnreadableImageError as error:
            raise self.broken(f"{file} cannot be read ({error})") from error

    @staticmethod
    def converted(image: Image.Image) -> Image.Image:
        return rgb(image)


@dataclass(frozen=True, eq=False)
class Listing:
    """The images that the lists of a data set name, before a look at their files.

    `images` reads them, and has no fingerprint. `paths` are those of `files` in the lists. `pixels` says what
    the images are besides the files, such as where their faces are: a part of the fingerprint and of the key.
    """

    images: ImageSet
    files: list[Path]
    source: Source
    folder: Path
    paths: Sequence[str]
    listed: Path
    details: Sequence[object] = ()
    pixels: str = ""

    def image_set(self, missing: Missing = "error") -> ImageSet:
        """Return the set with its fingerprint, after a look at every file.

        "error": every file exists and is regular; the first other one is a UserError.
        "skip": files that are missing, not regular or not decodable are left out. Every other file has been
        decoded to its end once, with the size and the time it has now; the result is kept in the cache.
        """
        stats: dict[int, os.stat_result] = {}
        for index, file in enumerate(self.files):
            try:
                stats[index] = regular_stat(file)
            except OSError as error:
                if missing == "error":
                    raise self.source.absent(file, self.listed, error) from error
        images = self._described(stats)
        if missing == "skip":
            places = list(stats)
            for position in self._damaged(images, [self.files[index] for index in places]):
                del stats[places[position]]
            images = self._described(stats)
        if images.skipped:
            names = printable(", ".join(images.skipped[:NAMED])) + " …" * (len(images.skipped) > NAMED)
            count = f"{len(images.skipped):,} of {len(self.files):,} listed images are skipped"
            logger.warning("%s (%s): %s: %s", images.name, images.part, count, names)
        return images

    def _damaged(self, images: ImageSet, files: list[Path]) -> list[int]:
        """Return which of the files cannot be decoded. The same files are decoded once a machine."""

        def fails(file: Path) -> bool:
            try:
                with opened_file(file, side=SMALLEST) as image:
                    self.source.converted(image)
            except UnreadableImageError as error:
                if not error.damaged:  # an error of the disk must not enter the cache
                    raise self.source.broken(f"{file} cannot be read ({error})") from error
                return True
            return False

        def build(folder: Path) -> None:
            logger.info("decoding %d images of %s (%s) to verify them", len(files), images.name, images.part)
            with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
                failed = [position for position, fault in enumerate(pool.map(fails, files)) if fault]
            (folder / "damaged.json").write_text(json.dumps(failed))

        def read(folder: Path) -> list[int]:
            return [int(position) for position in parse_json((folder / "damaged.json").read_text())]

        entry = f"{images.name}-{images.part}-damaged-{images.key}-pillow{PIL.__version__}"
        return cached(entry, build, read)

    def _described(self, stats: Mapping[int, os.stat_result]) -> ImageSet:
        """Return the set of the files in `stats`; the fingerprint is of names and sizes."""
        listing = [(self.paths[index], stat.st_size) for index, stat in stats.items()]
        skipped = tuple(path for index, path in enumerate(self.paths) if index not in stats)
        images = self.images if not skipped else self._rest(np.array(list(stats), dtype=np.int64))
        return replace(
            images,
            fingerprint=_hash(
                images.class_names, listing, *self.details, *filter(None, [skipped, self.pixels])
            ),
            key=_hash(
                os.path.realpath(self.folder),
                listing,
                [stat.st_mtime_ns for stat in stats.values()],
                *([self.pixels] if self.pixels else []),
            ),
            skipped=skipped,
        )

    def _rest(self, chosen_N: Ints) -> ImageSet:
        """Return the set of some images; classes and categories without an image are dropped."""
        images = self.images.at(chosen_N)
        query_N = images.query_N
        if not len(chosen_N) or (query_N is not None and query_N.all() == query_N.any()):
            what = "image" if not len(chosen_N) else "query or no image of the gallery"
            raise self.source.broken(f"no {what} that {self.listed} lists can be read")
        present_C, _, labels_N = dense(images.labels_N)
        category_N, names = images.category_N, images.category_names
        if category_N is not None:
            present_K, _, place_N = dense(category_N[category_N >= 0])
            category_N[category_N >= 0] = place_N
            names = tuple(names[category] for category in present_K)
        return replace(
            images,
            labels_N=labels_N,
            class_names=tuple(images.class_names[label] for label in present_C),
            category_N=category_N,
            category_names=names,
        )


def dense(values: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the distinct values in order, the first index of each, and the rank of each."""
    distinct, first, place_N = np.unique(values, return_index=True, return_inverse=True)
    return distinct, first, place_N.astype(np.int64)


def _hash(*content: object) -> str:
    return short_hash(repr(content).encode())
