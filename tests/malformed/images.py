"""Own images: damaged files, huge headers, odd names, links that never end."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

from data.tiny_layouts import picture
from malformed.case import Case

PLAN = ("search", "--data", "photos", "--store", "{store}", "--dry-run")
VERIFY = ("data", "verify", "photos")


def photos(folder: Path) -> Path:
    """Twelve classes of three images, in train and test."""
    for number in range(8):
        for index in range(3):
            half = "train" if number < 6 else "test"
            picture(folder / "photos" / half / f"c{number}" / f"{index}.png", number, index)
    return folder / "photos" / "train" / "c0" / "z.png"


def png_header(width: int, height: int) -> bytes:
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head))
    data = b"IDAT" + zlib.compress(b"\0" * 100)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk
        + struct.pack(">I", len(data) - 4)
        + data
        + struct.pack(">I", zlib.crc32(data))
    )


def png_chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def webp_canvas() -> bytes:
    """A WebP whose header claims 16384 × 16384 pixels."""
    head = b"WEBPVP8X" + struct.pack("<I", 10) + bytes(4) + b"\xff\x3f\x00" * 2
    return b"RIFF" + struct.pack("<I", len(head)) + head


def tiff_of(width: int, height: int) -> bytes:
    """A TIFF of bytes without compression that claims this size."""
    entries = {256: width, 257: height, 258: 8, 259: 1, 262: 1, 273: 8, 277: 1, 278: height, 279: 100}
    rows = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in entries.items())
    return b"II*\0\x08\0\0\0" + struct.pack("<H", len(entries)) + rows + bytes(4)


def with_bytes(content: bytes) -> Callable[[Path], object]:
    return lambda folder: photos(folder).write_bytes(content)


BROKEN = {
    "empty": b"",
    "text": b"not an image",
    "bomb-60000": png_header(60_000, 60_000),
    "bomb-max": png_header(2**31 - 1, 2**31 - 1),
    "zero": png_header(0, 0),
    "huge-ppm": b"P6 100000 100000 255\n",
    "gif": b"GIF89a\xff\xff\xff\xff",
    "jpeg": b"\xff\xd8\xff\xe0" + b"\0" * 40,
    "tiff": b"II*\0\x08\0\0\0\xff\xff" + b"\1" * 60,
    "truncated": png_header(64, 64)[:40],
    "webp": b"RIFF\xff\xff\xff\xffWEBPVP8 ",
    "webp-canvas": webp_canvas(),
    "eps": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n",
    "svg": b"<svg xmlns='http://www.w3.org/2000/svg'><script>1</script></svg>",
    "pdf": b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\n%%EOF\n",
    "dds": b"DDS " + struct.pack("<7I", 124, 0x1007, 60_000, 60_000, 0, 0, 0) + bytes(100),
    "psd": b"8BPS" + struct.pack(">H6xHIIHH", 1, 3, 30_000, 30_000, 8, 3) + bytes(16),
    "text-chunk": png_header(8, 8)[:33] + png_chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(50_000_000), 9)),
    "profile": png_header(8, 8)[:33] + png_chunk(b"iCCP", b"a\0\0" + zlib.compress(bytes(50_000_000), 9)),
    "tiff-huge": tiff_of(2**31 - 1, 2**31 - 1),
    "tiff-loop": b"II*\0\x08\0\0\0\0\0\x08\0\0\0",
    "gif-screen": b"GIF89a\xff\xff\xff\xff\x80\0\0" + bytes(6) + b",\0\0\0\0\xff\xff\xff\xff\0\x02\x00;",
    "jpeg-huge": b"\xff\xd8\xff\xc0\0\x11\x08\xff\xdc\xff\xdc\x03\x01\x11\0\x02\x11\1\x03\x11\1\xff\xd9",
}


def as_fifo(folder: Path) -> None:
    os.mkfifo(photos(folder))


def as_loop(folder: Path) -> None:
    file = photos(folder)
    file.symlink_to(file)


def as_device(folder: Path) -> None:
    photos(folder).symlink_to("/dev/zero")


def explosion(folder: Path) -> None:
    file = photos(folder)
    for name in "abc":
        (file.parent / name).symlink_to(file.parent, target_is_directory=True)


def not_utf8(folder: Path) -> None:
    Path(os.fsdecode(os.fsencode(photos(folder).parent) + b"/\xff.png")).write_bytes(b"broken")


def escape(folder: Path) -> None:
    (photos(folder).parent / "\x1b[31m.png").write_bytes(b"broken")


def class_not_utf8(folder: Path) -> None:
    source = photos(folder).parent
    target = Path(os.fsdecode(os.fsencode(source.parent) + b"/\xff\xfe"))
    target.mkdir()
    (target / "0.png").write_bytes((source / "0.png").read_bytes())


def class_escape(folder: Path) -> None:
    (folder / "runs").mkdir()
    source = photos(folder).parent
    source.rename(source.parent / "\x1b[31mred")


def table(content: bytes) -> Callable[[Path], object]:
    return lambda folder: (
        (folder / "photos").write_bytes(content) and (folder / "photos").rename(folder / "photos.csv")
    )


TABLES = {
    "empty": b"",
    "binary": b"\xff\xfe" * 50,
    "no-label": b"path\na.png\n",
    "missing": b"path,label\nnosuch.png,a\n",
    "quote": b'path,label\n"a.png,a\n',
    "nul": b"path,label\na\0.png,a\n",
    "long": b"path,label\n" + b"x" * 300_000 + b",a\n",
}
TABLE_PLAN = ("search", "--data", "photos.csv", "--store", "{store}", "--dry-run")
ODD = {"fifo": as_fifo, "loop": as_loop, "device": as_device}

CASES = [
    *(
        Case(f"image-plan/{name}", PLAN, "z.png", prepare=with_bytes(content))
        for name, content in BROKEN.items()
    ),
    *(
        Case(f"image-verify/{name}", VERIFY, "z.png", code=1, prepare=with_bytes(content))
        for name, content in BROKEN.items()
    ),
    *(Case(f"image-plan/{name}", PLAN, "z.png", prepare=make) for name, make in ODD.items()),
    *(
        Case(f"image-verify/{name}", VERIFY, "z.png", code=2 if name == "device" else 1, prepare=make)
        for name, make in ODD.items()
    ),
    Case("links/explosion-plan", PLAN, code=0, prepare=explosion),
    Case("links/explosion-verify", VERIFY, code=0, prepare=explosion),
    Case("file-name/not-utf8-verify", VERIFY, code=1, prepare=not_utf8),
    Case("file-name/not-utf8-json", (*VERIFY, "-f", "json"), code=1, prepare=not_utf8),
    Case("file-name/escape-verify", VERIFY, code=1, prepare=escape),
    Case("file-name/escape-plan", PLAN, prepare=escape),
    Case("class/not-utf8-plan", PLAN, prepare=class_not_utf8, code=0),
    Case("class/escape-verify", VERIFY, code=0, prepare=class_escape),
    Case(
        "class/escape-show",
        ("data", "show", "photos", "--out", "{store}/x.png"),
        code=0,
        prepare=class_escape,
    ),
    *(
        Case(f"table/{name}", TABLE_PLAN, "photos.csv", prepare=table(content))
        for name, content in TABLES.items()
    ),
    Case("data/unknown", ("data", "verify", "nosuch"), "nosuch"),
    Case(
        "data/archive",
        ("data", "prepare", "cub", "--archive", "nosuch.tgz", "--data-root", "{store}"),
        "nosuch.tgz",
    ),
    Case("data/out", ("data", "show", "glyphs", "--out", "/dev/null/x.png"), "/dev/null"),
]
