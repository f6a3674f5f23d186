"""Photos decoded and scaled down once a machine, in memory-mapped files.

An entry of the cache is a file `index` (the SHA-256 of the rest, then the shape of every image) and files
`shard-000`, … with the pixels of equally many images each, one after the other.

Legend: N images, H×W pixels.
"""

from __future__ import annotations

import hashlib
import logging
import math
import os
import shutil
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import PIL

from dmltune.data.cache import cache_folder, cached, limit_bytes, memory_folder, trim
from dmltune.data.files import amount
from dmltune.data.images import ImageSet, Ints, Pixels
from dmltune.errors import UserError, nearest

logger = logging.getLogger(__name__)

VERSION = 2
MODES = ("disk", "memory", "none")
CHUNK = 32  # images that a thread decodes at a time
SHARD, MOST_SHARDS = 512, 64  # images in a shard of a small set, shards of a large one
SAMPLE = 32  # images that the size and the time are estimated from
SPARE = 1.1  # required room over the estimate
LOGGED_SECONDS = 2.0  # packing that takes longer is logged, and then every LOG_EVERY seconds
LOG_EVERY = 60.0


def at_size(imageset: ImageSet, size: int, mode: str | None = None) -> ImageSet:
    """Return the images with the shorter side that `size` pixels need (256 for 227).

    Smaller images keep their size. A set without `key` is quick to read and is returned as it is. The pixels
    are the same in every mode (default: $DMLTUNE_IMAGE_CACHE, else disk):

    disk    packed in the cache folder; the operating system keeps pages that are read often in memory.
    memory  packed in /dev/shm, for slow or full disks: shared by all processes of the machine and removed
            when the last one that uses it ends.
    none    the files are read and scaled each time.
    """
    mode = _known(mode)
    if not imageset.key or not len(imageset):
        return imageset
    side = math.ceil(size * imageset.margin)
    if mode == "none":
        return imageset.with_reader(lambda indices, hint: imageset.read(indices, side))
    in_memory = mode == "memory"
    root = memory_folder() if in_memory else cache_folder()
    return cached(
        _entry(imageset, side),
        lambda folder: _pack(imageset, side, root, folder, in_memory),
        lambda folder: _open(imageset, folder),
        in_memory,
    )


def packed_here(imageset: ImageSet, side: int) -> ImageSet:
    """Return the packed images where the cache folder has them, else the set; nothing is packed."""
    folder = cache_folder() / _entry(imageset, side)
    if not imageset.key or not folder.is_dir():
        return imageset
    try:
        return _open(imageset, folder)
    except (OSError, ValueError):  # damaged, or removed meanwhile
        return imageset


class Packing(NamedTuple):
    """What packing a set takes, estimated from a sample."""

    size: float  # bytes
    seconds: float

    @classmethod
    def estimate(cls, imageset: ImageSet, side: int) -> Packing:
        sampled = np.linspace(0, len(imageset) - 1, min(SAMPLE, len(imageset)), dtype=np.int64)
        start, share = time.perf_counter(), len(imageset) / len(sampled)
        size = sum(image_HWC.nbytes for image_HWC in imageset.read(sampled, side)) * share
        return cls(size, (time.perf_counter() - start) * share / _threads())


def packing(imageset: ImageSet, size: int) -> Packing | None:
    """Return what `at_size` has still to do for this set; None when it is packed, or is not to be packed.

    A UserError when there is no room.
    """
    mode = _known(None)
    side = math.ceil(size * imageset.margin)
    if mode == "none" or not imageset.key or not len(imageset):
        return None
    root = memory_folder() if mode == "memory" else cache_folder()
    if (root / _entry(imageset, side)).is_dir():
        return None
    estimated = Packing.estimate(imageset, side)
    root.mkdir(parents=True, exist_ok=True)
    _make_room(_what(imageset, side), estimated.size, root, mode == "memory")
    return estimated


def _known(mode: str | None) -> str:
    mode = mode or os.environ.get("DMLTUNE_IMAGE_CACHE") or MODES[0]
    if mode not in MODES:
        raise UserError(
            f"the image cache must be one of {', '.join(MODES)}; got '{mode}'{nearest(mode, MODES)}"
        )
    return mode


def _entry(imageset: ImageSet, side: int) -> str:
    """Return the name of the packed images in the cache."""
    return f"{imageset.name}-{imageset.part}-{side}px-{imageset.key}-v{VERSION}-pillow{PIL.__version__}"


def _what(imageset: ImageSet, side: int) -> str:
    return f"packing {len(imageset):,} images of {imageset.name} ({imageset.part}) at {side} px"


def _threads() -> int:
    return len(os.sched_getaffinity(0))


def _pack(imageset: ImageSet, side: int, root: Path, folder: Path, in_memory: bool) -> None:
    total, each, threads = len(imageset), _per_shard(len(imageset)), _threads()
    size, seconds = Packing.estimate(imageset, side)
    what = _what(imageset, side)
    _make_room(what, size, root, in_memory)
    logged = seconds > LOGGED_SECONDS
    if logged:
        logger.info("%s, %s in %s: about %s …", what, amount(size), root, _duration(seconds))
    shapes_N3 = np.zeros((total, 3), dtype=np.int32)
    chunks = [range(first, min(first + CHUNK, total)) for first in range(0, total, CHUNK)]
    done, due, start = 0, time.perf_counter() + LOG_EVERY, time.perf_counter()
    for chunk, images in zip(chunks, _decoded(imageset, side, chunks, threads), strict=True):
        with (folder / f"shard-{chunk.start // each:03d}").open("ab") as stream:
            for index, image_HWC in zip(chunk, images, strict=True):
                shapes_N3[index] = image_HWC.shape
                stream.write(np.ascontiguousarray(image_HWC).data)
        done += len(chunk)
        now = time.perf_counter()
        if logged and now > due:
            logger.info(
                "%s: %.0f%%, %s left", what, 100 * done / total, _duration((now - start) * (total / done - 1))
            )
            due = now + LOG_EVERY
    if logged:
        logger.info("%s: done in %s", what, _duration(time.perf_counter() - start))
    payload = shapes_N3.tobytes()
    (folder / "index").write_bytes(hashlib.sha256(payload).digest() + payload)


def _decoded(imageset: ImageSet, side: int, chunks: list[range], threads: int) -> Iterator[list[Pixels]]:
    """Yield the images of every chunk, in order; at most two chunks a thread wait in memory.

    Pillow decodes and scales without the interpreter's lock, so threads are enough.
    """
    pool = ThreadPoolExecutor(threads, thread_name_prefix="pack")
    pending: deque[Future[list[Pixels]]] = deque()
    try:
        for chunk in chunks:
            pending.append(pool.submit(imageset.read, np.asarray(chunk), side))
            if len(pending) > 2 * threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _open(imageset: ImageSet, folder: Path) -> ImageSet:
    content = (folder / "index").read_bytes()
    checksum, payload = content[:32], content[32:]
    if hashlib.sha256(payload).digest() != checksum or len(payload) != 12 * len(imageset):
        raise ValueError(f"{folder}: the index is damaged")
    shapes_N3 = np.frombuffer(payload, dtype=np.int32).reshape(-1, 3)
    each = _per_shard(len(imageset))
    sizes_N = shapes_N3.prod(axis=1, dtype=np.int64)
    shards, starts_N = [], np.empty(len(sizes_N), dtype=np.int64)  # where an image starts in its shard
    for first in range(0, len(sizes_N), each):
        ends = np.cumsum(sizes_N[first : first + each])
        starts_N[first : first + each] = ends - sizes_N[first : first + each]
        shard = folder / f"shard-{first // each:03d}"
        if shard.stat().st_size != ends[-1]:
            raise ValueError(f"{shard} does not have the size that the index says")
        shards.append(np.asarray(np.memmap(shard, dtype=np.uint8, mode="r")))

    def read(indices: Ints, side: int | None) -> list[Pixels]:
        places = zip(
            (indices // each).tolist(),
            starts_N[indices].tolist(),
            sizes_N[indices].tolist(),
            shapes_N3[indices].tolist(),
            strict=True,
        )
        return [shards[shard][start : start + size].reshape(shape) for shard, start, size, shape in places]

    return imageset.with_reader(read)


def _make_room(what: str, size: float, root: Path, in_memory: bool) -> None:
    trim(root, 0.0 if in_memory else limit_bytes(), room=size)
    free = shutil.disk_usage(root).free
    if free < SPARE * size:
        other = "use --cache disk" if in_memory else "set DMLTUNE_CACHE to a folder with more room"
        raise UserError(
            f"{what} needs {amount(SPARE * size)}; {root} has {amount(free)}: {other}, or --cache none, which"
            " reads the files each time."
        )


def _per_shard(count: int) -> int:
    """Return the images in a shard, a multiple of CHUNK."""
    return max(SHARD, CHUNK * math.ceil(count / MOST_SHARDS / CHUNK))


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
