"""Verify that all files of a data set exist, decode, and are in one part only.

A file is read once and decoded at full size, on threads: Pillow and hashlib release the interpreter's lock.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from dmltune.data import catalog
from dmltune.data.decoding import UnreadableImageError, opened
from dmltune.data.files import amount, open_regular
from dmltune.data.images import ImageSet, Part
from dmltune.errors import UserError

Kind = Literal["missing", "empty", "no image", "truncated", "unreadable", "in both parts", "count"]
LARGEST = 1 << 30  # bytes of a file: more than 50 megapixels need in any format
PIECE = 1 << 20
CHUNK = 64  # files between two reports of progress
BEGINNINGS = {b"\xff\xd8\xff": "JPEG", b"\x89PNG": "PNG", b"GIF8": "GIF", b"RIFF": "WebP", b"BM": "BMP"}


@dataclass(frozen=True)
class Fault:
    """What is wrong with a file or, without a file, with a part."""

    part: Part
    kind: Kind
    file: Path | None
    text: str


@dataclass(frozen=True)
class Half:
    """The counts of a part, and those that were published (None: not known).

    `alone` is the number of classes with one image.
    """

    part: Part
    images: int
    classes: int
    published_images: int | None
    published_classes: int | None
    alone: int


@dataclass(frozen=True)
class VerificationReport:
    """The result. `folder` is the common folder of all files, None where images are not files."""

    name: str
    folder: Path | None
    parts: tuple[Half, ...]
    faults: tuple[Fault, ...]

    @property
    def ok(self) -> bool:
        return not self.faults


@dataclass(frozen=True)
class Step:
    """Progress: `done` of `total` images. The last step has the report."""

    done: int
    total: int
    report: VerificationReport | None = None


@dataclass(frozen=True)
class FileState:
    """The digest of a file, "" for an empty one, and the kind of its fault."""

    digest: str = ""
    kind: Kind | None = None
    text: str = ""


def verify(name: str, root: Path | None = None, workers: int | None = None, **options: Any) -> Iterator[Step]:
    """Read every image of both parts. A set that is missing altogether is a UserError.

    Images that are not files (glyphs, records of CIFAR) are read as training reads them.
    """
    listed = {part: catalog.files(name, part, root, **options) for part in get_args(Part)}
    faults = _add_smaller_lists(name, root, listed) if not options else []
    files = list(dict.fromkeys(file for _, files in listed.values() for file in files))
    states: dict[Path, FileState] = {}
    jobs: list[Callable[[], int]] = [
        partial(_read_files, files[start : start + CHUNK], states) for start in range(0, len(files), CHUNK)
    ]
    total = len(files)
    for images, part_files in listed.values():
        if not part_files:
            total += len(images)
            places = range(len(images))
            jobs += [partial(_read_images, images, places[at : at + CHUNK], faults) for at in places[::CHUNK]]
    yield Step(0, total)
    done = 0
    pool = ThreadPoolExecutor(workers or len(os.sched_getaffinity(0)))
    try:
        for size in pool.map(lambda job: job(), jobs):
            done += size
            if done < total:
                yield Step(done, total)
    finally:
        pool.shutdown(cancel_futures=True)
    for part, (_, part_files) in listed.items():
        broken = ((file, states[file]) for file in part_files)
        faults += [Fault(part, state.kind, file, state.text) for file, state in broken if state.kind]
    faults += _in_both(listed["train"][1], listed["test"][1], states)
    faults += [
        Fault(part, "count", None, f"{have:,} {what} are listed; {whole:,} were published")
        for part, (images, _) in listed.items()
        for have, whole, what in catalog.counts(images)
        if have != whole
    ]
    halves = tuple(_half(images) for images, _ in listed.values())
    folder = Path(os.path.commonpath([file.absolute().parent for file in files])) if files else None
    yield Step(total, total, VerificationReport(name, folder, halves, tuple(faults)))


def _add_smaller_lists(
    name: str, root: Path | None, listed: dict[Part, tuple[ImageSet, list[Path]]]
) -> list[Fault]:
    """Add the files of the smaller test lists to those of the test half; return a fault for a list that is
    missing or has other images than the whole one.
    """
    faults: list[Fault] = []
    images, files = listed["test"]
    for test_list in catalog.smaller_lists(name):
        try:
            more = catalog.files(name, "test", root, test_list=test_list)[1]
        except UserError as error:
            faults.append(Fault("test", "missing", None, f"the {test_list} test list: {error}"))
            continue
        if test_list not in images.smaller_lists:
            text = (
                f"the {test_list} test list has images that the large one has not: it is measured on its own"
            )
            faults.append(Fault("test", "count", None, f"{text}, with data.test_list={test_list}"))
        files = list(dict.fromkeys([*files, *more]))
    listed["test"] = images, files
    return faults


def state_of(file: Path) -> FileState:
    """Read a file and decode it to its end. A JPEG of more than MAX_BYTES is decoded at a smaller scale."""
    digest, beginning, size = hashlib.blake2b(digest_size=16), b"", 0
    try:
        with open_regular(file, "rb") as stream:
            if os.fstat(stream.fileno()).st_size > LARGEST:
                return FileState(kind="unreadable", text=f"larger than {amount(LARGEST)}")
            while piece := stream.read(PIECE):
                beginning, size = beginning or piece[:40], size + len(piece)
                digest.update(piece)
            if not size:
                return FileState(kind="empty", text="0 bytes")
            stream.seek(0)
            with opened(stream) as image:
                image.load()
    except FileNotFoundError:
        return FileState(kind="missing", text="listed, but missing")
    except UnreadableImageError as error:
        if error.unidentified:
            return FileState(digest.hexdigest(), *_unidentified(beginning, size))
        kind: Kind = "truncated" if "truncated" in str(error).lower() else "unreadable"
        return FileState(digest.hexdigest(), kind, str(error))
    except (OSError, ValueError) as error:
        return FileState(kind="unreadable", text=getattr(error, "strerror", None) or str(error))
    return FileState(digest.hexdigest())


def _unidentified(start: bytes, size: int) -> tuple[Kind, str]:
    """Distinguish the beginning of an image from a web page and from other bytes."""
    for beginning, form in BEGINNINGS.items():
        if start.startswith(beginning):
            return "truncated", f"begins as {form} and ends after {size} bytes"
    text = " ".join(start.decode("utf-8", errors="replace").split())
    if text.isprintable() and "\ufffd" not in text[:-1]:
        return "no image", f"text: {text}"
    return "no image", f"begins with the bytes {start[:8].hex(' ')}"


def _read_files(files: Sequence[Path], states: dict[Path, FileState]) -> int:
    states.update((file, state_of(file)) for file in files)
    return len(files)


def _read_images(images: ImageSet, indices: range, faults: list[Fault]) -> int:
    try:
        images.read(indices)
    except UserError as error:
        faults.append(Fault(images.part, "unreadable", None, str(error)))
    return len(indices)


def _in_both(train: Sequence[Path], test: Sequence[Path], states: dict[Path, FileState]) -> Iterator[Fault]:
    """Yield test files with the same bytes as a training file."""
    first = {states[file].digest: file for file in reversed(train)}
    for file in dict.fromkeys(test):
        digest = states[file].digest
        if digest and digest in first:
            other = first[digest]
            text = "listed in train too" if other == file else f"the same bytes as {other} in train"
            yield Fault("test", "in both parts", file, text)


def _half(images: ImageSet) -> Half:
    whole = catalog.published(images.name).get(images.part, (None, None))
    alone = int((np.bincount(images.labels_N) == 1).sum())
    return Half(images.part, len(images), images.num_classes, *whole, alone)
