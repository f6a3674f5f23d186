"""Whether a copy of a data set is whole: every file is there, opens and decodes to its end, none lies in both
parts, and there are as many as were published.

A file is read once and decoded at full size, on threads: Pillow and hashlib let go of the interpreter.
"""

from __future__ import annotations

import hashlib
import io
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from PIL import Image, UnidentifiedImageError

from dmltune.data import catalog
from dmltune.data.images import ImageSet, Part
from dmltune.errors import UserError

Kind = Literal["missing", "empty", "no image", "truncated", "unreadable", "in both parts", "count"]
CHUNK = 64  # files between two reports of progress
BEGINNINGS = {b"\xff\xd8\xff": "JPEG", b"\x89PNG": "PNG", b"GIF8": "GIF", b"RIFF": "WebP", b"BM": "BMP"}


@dataclass(frozen=True)
class Fault:
    """What is wrong with a file, or (kind "count", no file) with a part."""

    part: Part
    kind: Kind
    file: Path | None
    text: str


@dataclass(frozen=True)
class Half:
    """A part as it is listed beside what was published (None: not known). `alone`: classes with one image."""

    part: Part
    images: int
    classes: int
    published_images: int | None
    published_classes: int | None
    alone: int


@dataclass(frozen=True)
class VerificationReport:
    name: str
    folder: Path | None  # that all files are in; None where images are not files
    parts: tuple[Half, ...]
    faults: tuple[Fault, ...]

    @property
    def ok(self) -> bool:
        return not self.faults


@dataclass(frozen=True)
class Step:
    """So many images of all are looked at; the last step has the report."""

    done: int
    total: int
    report: VerificationReport | None = None


@dataclass(frozen=True)
class Seen:
    """A file that was looked at. Without `kind` it is a whole image; `digest` is "" where it has no bytes."""

    digest: str = ""
    kind: Kind | None = None
    text: str = ""


def verify(name: str, root: Path | None = None, workers: int | None = None, **options: Any) -> Iterator[Step]:
    """Looks at every image of both parts. A set that is not there at all is a UserError.

    Images that are not files (glyphs, records of CIFAR) are read as training reads them.
    """
    listed = {part: catalog.files(name, part, root, **options) for part in get_args(Part)}
    files = list(dict.fromkeys(file for _, found in listed.values() for file in found))
    seen: dict[Path, Seen] = {}
    faults: list[Fault] = []
    jobs: list[Callable[[], int]] = [
        partial(_look_at, files[start : start + CHUNK], seen) for start in range(0, len(files), CHUNK)
    ]
    total = len(files)
    for images, found in listed.values():
        if not found:
            total += len(images)
            starts = range(0, len(images), CHUNK)
            jobs += [partial(_read, images, range(len(images))[at : at + CHUNK], faults) for at in starts]
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
    for part, (_, found) in listed.items():
        faults += [
            Fault(part, kind, file, seen[file].text)
            for file in found
            if (kind := seen[file].kind) is not None
        ]
    faults += _in_both(listed["train"][1], listed["test"][1], seen)
    halves = tuple(_half(images) for images, _ in listed.values())
    faults += [fault for half in halves for fault in _too_few(half)]
    folder = Path(os.path.commonpath([file.absolute().parent for file in files])) if files else None
    yield Step(total, total, VerificationReport(name, folder, halves, tuple(faults)))


def look(file: Path) -> Seen:
    """Read, recognised and decoded to the last pixel, or what is wrong with it."""
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return Seen(kind="missing", text="listed, but not there")
    except (OSError, ValueError) as error:
        return Seen(kind="unreadable", text=getattr(error, "strerror", None) or str(error))
    if not content:
        return Seen(kind="empty", text="0 bytes")
    digest = hashlib.blake2b(content, digest_size=16).hexdigest()
    try:
        with Image.open(io.BytesIO(content)) as image:
            image.load()
    except UnidentifiedImageError:
        return Seen(digest, *_not_identified(content))
    except (OSError, SyntaxError, ValueError, struct.error, Image.DecompressionBombError) as error:
        text = " ".join(str(error).split())
        return Seen(digest, "truncated" if "truncated" in text.lower() else "unreadable", text)
    return Seen(digest)


def _not_identified(content: bytes) -> tuple[Kind, str]:
    """A page that a server sent in place of the image is told from the beginning of an image."""
    for beginning, form in BEGINNINGS.items():
        if content.startswith(beginning):
            return "truncated", f"begins as {form} and ends after {len(content)} bytes"
    start = content[:40].decode("utf-8", errors="replace")
    words = " ".join(start.split())
    if words.isprintable() and "\ufffd" not in words[:-1]:
        return "no image", f"text: {words}"
    return "no image", f"begins with the bytes {content[:8].hex(' ')}"


def _look_at(files: Sequence[Path], seen: dict[Path, Seen]) -> int:
    seen.update((file, look(file)) for file in files)
    return len(files)


def _read(images: ImageSet, indices: range, faults: list[Fault]) -> int:
    try:
        images.read(indices)
    except UserError as error:
        faults.append(Fault(images.part, "unreadable", None, str(error)))
    return len(indices)


def _in_both(train: Sequence[Path], test: Sequence[Path], seen: dict[Path, Seen]) -> Iterator[Fault]:
    """The same bytes to train with and to test: what is measured is then memory."""
    first = {seen[file].digest: file for file in reversed(train)}
    for file in dict.fromkeys(test):
        digest = seen[file].digest
        if digest and digest in first:
            other = first[digest]
            text = "listed in train too" if other == file else f"the same bytes as {other} in train"
            yield Fault("test", "in both parts", file, text)


def _half(images: ImageSet) -> Half:
    whole = catalog.published(images.name).get(images.part, (None, None))
    alone = int((np.bincount(images.labels_N) == 1).sum())
    return Half(images.part, len(images), images.num_classes, *whole, alone)


def _too_few(half: Half) -> Iterator[Fault]:
    """Or too many."""
    for have, whole, what in (
        (half.images, half.published_images, "images"),
        (half.classes, half.published_classes, "classes"),
    ):
        if whole is not None and have != whole:
            yield Fault(half.part, "count", None, f"{have:,} {what} are listed; {whole:,} were published")
