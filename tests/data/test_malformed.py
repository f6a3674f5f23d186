"""Files and names that no honest data set has: one line or a skipped image, never a hang or a traceback."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from data import tiny_layouts
from data.photo_folders import CLASSES, EACH, photos
from PIL import Image

from dmltune.data import catalog
from dmltune.data.cache import cached
from dmltune.data.contact_sheet import draw
from dmltune.data.files import locked, open_regular
from dmltune.data.verify import state_of, verify
from dmltune.errors import UserError

pytestmark = pytest.mark.timeout(60)


def odd_files(folder: Path) -> dict[str, Path]:
    """A FIFO, a socket, a device, a folder and a link to itself, each named like an image."""
    folder.mkdir(parents=True, exist_ok=True)
    odd = {name: folder / f"{name}.png" for name in ("fifo", "socket", "device", "folder", "loop")}
    os.mkfifo(odd["fifo"])
    with contextlib.chdir(folder), socket.socket(socket.AF_UNIX) as listener:
        listener.bind(odd["socket"].name)  # an address has at most 108 characters
    odd["device"].symlink_to("/dev/zero")
    odd["folder"].mkdir()
    odd["loop"].symlink_to("loop.png")
    return odd


def png_header(width: int, height: int) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"x") + chunk(b"IEND", b"")


def test_no_file_but_a_regular_one_is_opened_as_an_image_a_list_or_a_lock(tmp_path: Path) -> None:
    for name, file in odd_files(tmp_path).items():
        with pytest.raises(OSError):
            open_regular(file, "rb")
        assert state_of(file).kind == "unreadable", name
        message = rf"the lock .*{name}\.png must be a regular file; remove it\."
        with pytest.raises(UserError, match=message), locked(file, "at work"):
            pytest.fail(name)
    os.mkfifo(tmp_path / ".entry.lock")
    os.environ["DMLTUNE_CACHE"], before = str(tmp_path), os.environ["DMLTUNE_CACHE"]
    try:
        with pytest.raises(UserError, match=r"the lock .*\.entry\.lock must be a regular file"):
            cached("entry", lambda folder: None, lambda folder: None)
    finally:
        os.environ["DMLTUNE_CACHE"] = before
    folder = tiny_layouts.write("vehicleid", tmp_path, 3, 2)
    listed = folder / "train_test_split" / "test_list_2400.txt"
    listed.unlink()
    os.mkfifo(listed)
    with pytest.raises(UserError, match=r"test_list_2400\.txt cannot be read \(.*not a regular file"):
        catalog.load("vehicleid", "test", tmp_path)


def test_an_odd_file_among_own_images_is_named_at_once(tmp_path: Path) -> None:
    for name in ("fifo", "socket", "device", "loop"):
        base = photos(tmp_path / name)
        odd_files(tmp_path / "odd" / name)[name].rename(base / "train" / "class 0" / f"{name}.png")
        if name == "device":  # its link leads out of the folder
            with pytest.raises(UserError, match=r"device\.png is a link out of"):
                catalog.load("own", "train", path=base)
            continue
        with pytest.raises(
            UserError, match=rf"own: .*{name}\.png cannot be read \(.*\); put it right"
        ) as caught:
            catalog.load("own", "train", path=base)
        assert "\n" not in str(caught.value)
        *_, last = verify("own", None, path=base)
        assert last.report is not None
        assert [fault.file and fault.file.name for fault in last.report.faults] == [f"{name}.png"]


def test_a_folder_reached_in_many_ways_is_read_once(tmp_path: Path) -> None:
    """20 folders with 3 links to the next one each have 3²⁰ paths."""
    base = photos(tmp_path)
    place = base / "train" / "class 0"
    for depth in range(20):
        inner = place / f"inner {depth}"
        inner.mkdir()
        for number in range(3):
            (place / f"link {number}").symlink_to(inner, target_is_directory=True)
        place = inner
    (place / "up").symlink_to(base / "train", target_is_directory=True)
    tiny_layouts.picture(place / "deep.png", 0, 9)
    images = catalog.load("own", "train", path=base)
    # the class has its own images, the deep one, and those of all classes through the link upwards
    assert np.bincount(images.labels_N).tolist() == [EACH * CLASSES + 1, EACH, EACH, EACH]


def test_names_that_no_folder_can_have_are_one_line(tmp_path: Path) -> None:
    for path in ("x" * 5000, "/" + "x" * 5000, "~nosuchuser/x", "x\0y"):
        with pytest.raises(UserError, match=r"data\.path must be a folder.*, which does not exist") as caught:
            catalog.load("own", "train", path=path)
        assert len(str(caught.value)) < 500
    with pytest.raises(UserError, match="no data set 'xxx") as caught:
        catalog.load("x" * 5000, "train")
    assert len(str(caught.value)) < 500


def test_control_characters_and_bytes_that_are_not_utf8_are_shown_as_escapes(tmp_path: Path) -> None:
    for number, name in enumerate((b"\x1b[31mred", b"\xff\xfe", b"line\nbreak", "é字".encode())):
        folder = tmp_path / os.fsdecode(name)
        for index in range(2):
            tiny_layouts.picture(folder / f"{index}.png", number, index)
    halves = [catalog.load("own", part, path=tmp_path) for part in ("train", "test")]
    names = {name for half in halves for name in half.class_names}
    assert names == {"\\x1b[31mred", "\\udcff\\udcfe", "line\\nbreak", "é字"}
    for half in halves:
        draw(half, tmp_path / "sheet.png")
        "".join(half.class_names).encode()


def test_a_header_that_claims_a_huge_image_is_refused_before_decoding(tmp_path: Path) -> None:
    huge = {
        "bomb.png": png_header(60_000, 60_000),
        "max.png": png_header(2**31 - 1, 2**31 - 1),
        "huge.ppm": b"P6 100000 100000 255\n\0",
    }
    for name, content in huge.items():
        base = photos(tmp_path / name)
        file = base / "train" / "class 0" / name
        file.write_bytes(content)
        images = catalog.load("own", "train", path=base)
        with pytest.raises(
            UserError, match=rf"{name} cannot be read \(it claims more than 178,956,970 pixels"
        ):
            images.read(range(len(images)))
        assert state_of(file).text == "it claims more than 178,956,970 pixels"


def test_pillow_warns_of_nothing_on_stderr(tmp_path: Path) -> None:
    """A TIFF whose directory ends early, and an image between Pillow's two limits."""
    base = photos(tmp_path)
    Image.new("RGB", (20, 20)).save(base / "train" / "class 0" / "broken.tiff")
    broken = base / "train" / "class 0" / "broken.tiff"
    content = bytearray(broken.read_bytes())
    (offset,) = struct.unpack_from("<I", content, 4)
    broken.write_bytes(content[: offset + 30])
    (base / "train" / "class 1" / "large.png").write_bytes(png_header(10_000, 10_000))
    program = """
import sys
from dmltune.data import catalog
from dmltune.errors import UserError
images = catalog.load("own", "train", path=sys.argv[1])
for index in range(len(images)):
    try:
        images.read([index])
    except UserError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", program, str(base)], capture_output=True, text=True)
    assert done.stderr == ""
    assert [line.split(" cannot be read")[0].rpartition("/")[2] for line in done.stdout.splitlines()] == [
        "broken.tiff",
        "large.png",
    ]
