"""Images decoded once: the same pixels in every mode, whole or built again, announced, and refused without
room."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dmltune.data import cache, packed
from dmltune.data.images import ImageSet, Ints, Pixels
from dmltune.data.packed import at_size
from dmltune.errors import UserError

IMAGES = 1100  # three shards of 512, 512 and 76 images


class Photos:
    """A set of small pictures of noise that counts how often each is decoded."""

    def __init__(self, count: int = IMAGES) -> None:
        rng = np.random.default_rng(0)
        shapes = [(12 + i % 5, 11 + i % 7, 3) for i in range(count)]
        self.pictures = [rng.integers(0, 256, shape, dtype=np.uint8) for shape in shapes]
        self.decoded = np.zeros(count, dtype=int)
        self.set = ImageSet(
            "photos", "train", np.arange(count) % 9, tuple("abcdefghi"), "0" * 16, self._read, key="k1"
        )

    def _read(self, indices: Ints, side: int | None) -> list[Pixels]:
        self.decoded[indices] += 1
        return [self.pictures[index] for index in indices]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("DMLTUNE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("DMLTUNE_IMAGE_CACHE", raising=False)
    (tmp_path / "memory").mkdir()
    monkeypatch.setattr(cache, "MEMORY", tmp_path / "memory")
    yield tmp_path / "cache"
    cache._release_memory()


@pytest.fixture
def photos() -> Photos:
    return Photos()


def the_entry(folder: Path) -> Path:
    (entry,) = (path for path in folder.iterdir() if path.is_dir())
    return entry


@pytest.mark.parametrize("mode", packed.MODES)
def test_every_mode_gives_the_pixels_that_decoding_gives(photos: Photos, mode: str) -> None:
    order = np.array([1099, 0, 511, 512, 1023, 1024, 7, 7])
    small = at_size(photos.set, 8, mode)
    for kept, original in zip(small.read(order), photos.set.read(order, 10), strict=True):
        assert min(kept.shape[:2]) == 10  # 8 · 256/227, rounded up
        assert np.array_equal(kept, original)
    large = at_size(photos.set, 50, mode)
    for kept, original in zip(large.read(order), photos.set.read(order), strict=True):
        assert np.array_equal(kept, original)  # never enlarged


@pytest.mark.parametrize("mode", ["disk", "memory"])
def test_packed_images_are_not_decoded_again_and_unpacked_ones_each_time(photos: Photos, mode: str) -> None:
    at_size(photos.set, 8, mode)
    photos.decoded[:] = 0
    again = at_size(photos.set, 8, mode)
    again.read(np.arange(IMAGES))
    assert photos.decoded.sum() == 0
    at_size(photos.set, 8, "none").read([3, 4])
    assert photos.decoded.sum() == 2


def test_the_mode_comes_from_the_argument_then_the_environment_then_is_disk(
    photos: Photos, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DMLTUNE_IMAGE_CACHE", "none")
    at_size(photos.set, 8)
    assert not own_cache.exists()
    at_size(photos.set, 8, "memory")
    assert not own_cache.exists()
    monkeypatch.delenv("DMLTUNE_IMAGE_CACHE")
    at_size(photos.set, 8)
    assert the_entry(own_cache).name.startswith("photos-train-10px-k1-")
    with pytest.raises(UserError, match=r"one of disk, memory, none; got 'dsk'; did you mean 'disk'\?"):
        at_size(photos.set, 8, "dsk")


def test_another_size_content_or_part_is_another_entry(photos: Photos, own_cache: Path) -> None:
    for images in (photos.set, replace(photos.set, key="k2"), replace(photos.set, part="test")):
        at_size(images, 8)
    at_size(photos.set, 9)
    assert len([path for path in own_cache.iterdir() if path.is_dir()]) == 4


@pytest.mark.parametrize("damage", ["shorter", "longer", "missing"])
def test_a_damaged_entry_is_built_again(photos: Photos, own_cache: Path, damage: str) -> None:
    expected = [image.copy() for image in at_size(photos.set, 8).read(np.arange(IMAGES))]
    shard = the_entry(own_cache) / "shard-001"
    content = shard.read_bytes()
    shard.unlink()
    if damage != "missing":
        shard.write_bytes(content[:-1] if damage == "shorter" else content + b"x")
    photos.decoded[:] = 0
    repaired = at_size(photos.set, 8)
    assert photos.decoded.min() == 1
    for kept, image in zip(repaired.read(np.arange(IMAGES)), expected, strict=True):
        assert np.array_equal(kept, image)


def test_an_index_with_a_changed_byte_is_not_believed(photos: Photos, own_cache: Path) -> None:
    for place in [0, 40, -1]:
        at_size(photos.set, 8)
        index = the_entry(own_cache) / "index"
        content = bytearray(index.read_bytes())
        content[place] ^= 1
        index.write_bytes(content)
        photos.decoded[:] = 0
        again = at_size(photos.set, 8)
        assert photos.decoded.min() == 1
        assert np.array_equal(again.read([5])[0], photos.set.read([5], 10)[0])


def test_an_empty_index_is_built_again(photos: Photos, own_cache: Path) -> None:
    at_size(photos.set, 8)
    (the_entry(own_cache) / "index").write_bytes(b"")
    assert len(at_size(photos.set, 8).read([0, 1])) == 2


def test_only_packing_that_takes_long_is_logged_with_its_size_and_the_time_left(
    photos: Photos, own_cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "dmltune")
    at_size(photos.set, 9)
    assert not caplog.messages
    monkeypatch.setattr(packed, "LOGGED_SECONDS", 0.0)
    at_size(photos.set, 10)
    assert len(caplog.messages) == 2  # the first and the last line
    caplog.clear()
    monkeypatch.setattr(packed, "LOG_EVERY", 0.0)
    at_size(photos.set, 8)
    first, *between, last = caplog.messages
    (entry,) = own_cache.glob("photos-train-10px-*")
    size = sum((entry / f"shard-00{k}").stat().st_size for k in range(3)) / 1e3
    announced = re.fullmatch(
        r"packing 1,100 images of photos \(train\) at 10 px, (\S+) kB in \S+/cache: about \d+ s …", first
    )
    assert announced is not None
    assert float(announced[1]) == pytest.approx(size, rel=0.1)
    assert len(between) > 6
    assert all(re.search(r"px: \d+%, \d+ s left$", line) for line in between)
    assert last.endswith("px: done in 0 s")


@pytest.mark.parametrize(
    ("mode", "remedy"), [("disk", "set DMLTUNE_CACHE to"), ("memory", "use --cache disk")]
)
def test_without_room_it_is_refused_before_anything_is_written(
    photos: Photos, own_cache: Path, monkeypatch: pytest.MonkeyPatch, mode: str, remedy: str
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=200_000))
    with pytest.raises(
        UserError, match=rf"needs \d+\.\d kB; .* has 200\.0 kB: {remedy}.* or --cache none, which reads"
    ):
        at_size(photos.set, 8, mode)
    assert not list(own_cache.rglob("shard-*"))


def test_an_image_that_cannot_be_read_stops_the_packing_and_leaves_nothing(
    photos: Photos, own_cache: Path
) -> None:
    def read(indices: Ints, side: int | None) -> list[Pixels]:
        if 700 in indices:
            raise UserError("image 700 cannot be read")
        return photos._read(indices, side)

    with pytest.raises(UserError, match="image 700"):
        at_size(photos.set.with_reader(read), 8)
    assert [path.suffix for path in own_cache.iterdir()] == [".lock"]


def test_a_large_set_has_no_more_shards_than_a_process_may_map() -> None:
    for count in (1, 511, 513, 60_000, 5_800_000):
        each = packed._per_shard(count)
        assert each % packed.CHUNK == 0
        assert -(-count // each) <= packed.MOST_SHARDS


def test_a_pack_in_memory_goes_with_the_last_process_that_uses_it(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from data.test_packed import Photos
from dmltune.data import cache
from dmltune.data.packed import at_size
cache.MEMORY = Path(sys.argv[1]) / "memory"
at_size(Photos(40).set, 8, "memory")
print("ready", flush=True)
sys.stdin.readline()
"""
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    users = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": path},
        )
        for _ in range(2)
    ]
    try:
        for user in users:
            assert user.stdout is not None
            assert user.stdout.readline() == "ready\n"
        left = []
        for user in users:
            user.communicate("end\n", timeout=60)
            left.append(len(list((tmp_path / "memory").rglob("index"))))
        assert left == [1, 0]
    finally:
        for user in users:
            user.kill()
            user.wait()


def test_a_set_without_images_is_returned_as_it_is(make_set: Callable[..., ImageSet]) -> None:
    nothing = replace(make_set([]), key="k")
    assert at_size(nothing, 8) is nothing
