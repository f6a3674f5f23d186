from __future__ import annotations

import os
import signal
import stat
import struct
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest
from data.archive_builders import (
    FILES,
    KINDS,
    everything,
    extract,
    member,
    pack,
    refusal,
    tarred,
    unix,
    zipped,
)

from dmltune.data import archives
from dmltune.data.archives import Limits
from dmltune.data.files import workspace
from dmltune.errors import UserError


@pytest.mark.parametrize("kind", KINDS)
def test_an_archive_of_every_kind_becomes_a_folder_with_its_files(kind: str, tmp_path: Path) -> None:
    archive = pack(tmp_path / f"birds{kind}", FILES)
    extract(archive, tmp_path / "new" / "out")
    out = tmp_path / "new" / "out"
    assert {name: (out / name).read_bytes() for name in FILES} == FILES
    assert everything(out) == sorted(["birds", "birds/images", *FILES])
    assert os.listdir(out.parent) == ["out"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_torn_archive_is_refused_wherever_it_is_torn(kind: str, tmp_path: Path) -> None:
    whole = pack(tmp_path / f"birds{kind}", {f"{index}.jpg": os.urandom(700) for index in range(4)})
    content = whole.read_bytes()
    cuts = (
        [len(content) // 3, len(content) - 10_240, len(content) - 4] if kind != ".tar" else [512, 1000, 2048]
    )
    for cut in cuts:
        if cut > 0:
            whole.write_bytes(content[:cut])
            assert "damaged" in refusal(whole)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_a_flipped_byte_in_an_image_is_found(kind: str, tmp_path: Path) -> None:
    archive = pack(tmp_path / f"birds{kind}", {"1.jpg": os.urandom(50_000)})
    content = bytearray(archive.read_bytes())
    content[25_000] ^= 1
    archive.write_bytes(content)
    assert "damaged" in refusal(archive)


OUTSIDE = {
    "../evil.txt": "leads outside",
    "a/../../evil.txt": "leads outside",
    "a/..": "leads outside",
    "/tmp/evil.txt": "is absolute",
    "//evil.txt": "is absolute",
    "C:/evil.txt": "is absolute",
    "..\\evil.txt": "has a backslash",
    "a\nb.txt": "control character",
    "/".join(["deep"] * 40): "has a path of 40 names",
    "good.txt": "is in it twice",
    "./good.txt": "is in it twice",
    "good.txt/below.txt": "is in it twice",
}


@pytest.mark.parametrize("kind", [".tar", ".tar.gz", ".zip"])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_leads_outside_or_over_another_file_is_refused(kind: str, tmp_path: Path) -> None:
    for name in OUTSIDE:
        archive = tmp_path / "in" / f"evil{kind}"
        archive.parent.mkdir(exist_ok=True)
        zipped(archive, name) if kind == ".zip" else tarred(archive, member(name, 3))
        assert OUTSIDE[name] in refusal(archive)
        assert everything(tmp_path) == ["in", f"in/{archive.name}"]


def test_what_is_neither_a_folder_nor_a_plain_file_is_refused(tmp_path: Path) -> None:
    for info, flaw in [
        (member("link", kind=tarfile.SYMTYPE, link="/etc"), "is a link"),
        (member("link", kind=tarfile.SYMTYPE, link="good.txt"), "is a link"),
        (member("link", kind=tarfile.LNKTYPE, link="../../secret"), "is a link"),
        (member("link", kind=tarfile.LNKTYPE, link="good.txt"), "is a link"),
        (member("pipe", kind=tarfile.FIFOTYPE), "is a device"),
        (member("disk", kind=tarfile.BLKTYPE), "is a device"),
        (member("tty", kind=tarfile.CHRTYPE), "is a device"),
        (member("gaps", kind=tarfile.GNUTYPE_SPARSE), "is a file with gaps"),
        (unix("link", stat.S_IFLNK | 0o777), "is a link"),
        (unix("pipe", stat.S_IFIFO | 0o666), "is a device"),
        (unix("disk", stat.S_IFBLK | 0o666), "is a device"),
    ]:
        if isinstance(info, zipfile.ZipInfo):
            archive = zipped(tmp_path / "evil.zip", info)
        else:
            archive = tarred(tmp_path / "evil.tar", info)
        assert flaw in refusal(archive)


def test_a_link_is_refused_before_anything_goes_through_it(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    link = member("way", kind=tarfile.SYMTYPE, link=str(elsewhere))
    archive = tarred(tmp_path / "evil.tar", link, member("way/evil.txt", 3))
    assert "'way' is a link" in refusal(archive)
    assert not list(elsewhere.iterdir())


def test_an_encrypted_zip_is_refused_with_its_remedy(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "secret.zip", "photo.jpg")
    content = archive.read_bytes()
    central = content.index(b"PK\x01\x02")
    locked = bytearray(content)
    locked[central + 8] |= 1  # bit 0 of the flags, in the directory and before the file itself
    locked[6] |= 1
    archive.write_bytes(locked)
    assert "is encrypted; unpack it with its password" in refusal(archive)


def test_a_zip_packed_in_an_unknown_way_is_refused(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "odd.zip")
    content = bytearray(archive.read_bytes())
    struct.pack_into("<H", content, content.index(b"PK\x01\x02") + 10, 9)
    archive.write_bytes(content)
    assert "compressed by a method that is not supported (9)" in refusal(archive)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_a_bomb_is_refused_by_what_it_unpacks_to(kind: str, tmp_path: Path) -> None:
    archive = pack(tmp_path / f"bomb{kind}", {f"zeros{index}": bytes(1_000_000) for index in range(8)})
    assert archive.stat().st_size < 70_000
    assert "a zip bomb? It has" in refusal(archive)
    extract(archive, tmp_path / "trusted", Limits(ratio=1_000_000))
    assert (tmp_path / "trusted" / "zeros7").stat().st_size == 1_000_000


def test_a_bomb_that_claims_a_terabyte_or_less_than_nothing_is_refused_by_its_headers(tmp_path: Path) -> None:
    archive = tmp_path / "bomb.tar"
    for size, why in ((10**12, "a zip bomb?"), (-512, "has -512 bytes")):
        info = member("zeros", 0)
        block = bytearray(info.tobuf(tarfile.GNU_FORMAT))
        block[124:136] = (b"\x80" if size > 0 else b"\xff") + (size % 256**11).to_bytes(11, "big")
        block[148:156] = b" " * 8
        block[148:156] = f"{sum(block):06o}\0 ".encode()
        archive.write_bytes(bytes(block) + bytes(1024))
        assert why in refusal(archive)


def test_a_header_that_claims_a_gigabyte_long_name_is_refused_unread(tmp_path: Path) -> None:
    info = member("././@LongLink", 2**30, tarfile.GNUTYPE_LONGNAME)
    archive = tmp_path / "name.tar"
    archive.write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(4096))
    assert "a header of 1073741824 bytes" in refusal(archive)


def test_more_members_than_allowed_are_refused(tmp_path: Path) -> None:
    archive = pack(tmp_path / "many.tar.gz", {f"{index}": b"" for index in range(20)})
    assert "has more than 20 members" in refusal(archive, limits=Limits(members=20))  # and a folder


def test_the_disk_must_have_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = pack(tmp_path / "birds.zip", FILES)
    monkeypatch.setattr(archives.shutil, "disk_usage", lambda _: type("", (), {"free": 4000}))
    assert "needs more than the 4.0 kB that are free; free some room" in refusal(archive)
    with pytest.raises(UserError, match=r"must have room for 1\.5 GB; it has 512 bytes\. Free some"):
        monkeypatch.setattr(archives.shutil, "disk_usage", lambda _: type("", (), {"free": 512}))
        archives.require_room(tmp_path, 1_500_000_000)


def test_an_archive_in_an_archive_stays_packed(tmp_path: Path) -> None:
    inner = pack(tmp_path / "bomb.zip", {"zeros": bytes(3_000_000)}).read_bytes()
    extract(pack(tmp_path / "outer.tar", {"bomb.zip": inner}), tmp_path / "out")
    assert (tmp_path / "out" / "bomb.zip").read_bytes() == inner


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    for content, why in [
        (b"\n<!DOCTYPE html><html>Log in</html>", "it is a web page; fetch the file"),
        (b"7z\xbc\xaf\x27\x1c" * 500, "damaged or not an archive"),
        (b"", "damaged or not an archive"),
    ]:
        archive = tmp_path / "birds.tgz"
        archive.write_bytes(content)
        assert why in refusal(archive)


def test_a_missing_archive_and_one_that_is_a_fifo_are_one_line(tmp_path: Path) -> None:
    assert "cannot be unpacked (No such file or directory" in refusal(tmp_path / "none.zip")
    os.mkfifo(tmp_path / "fifo.zip")
    assert "cannot be unpacked (not a regular file" in refusal(tmp_path / "fifo.zip")


@pytest.mark.parametrize("kind", KINDS)
def test_progress_grows_from_member_to_member_and_ends_with_the_whole_archive(
    kind: str, tmp_path: Path
) -> None:
    archive = pack(tmp_path / f"birds{kind}", {f"{index}": os.urandom(300_000) for index in range(5)})
    seen: list[tuple[int, int]] = []
    extract(archive, tmp_path / "out", progress=lambda done, total: seen.append((done, total)))
    size = archive.stat().st_size
    assert [total for _, total in seen] == [size] * len(seen)
    assert seen == sorted(seen)
    assert 0.5 * size < seen[-1][0] <= size


def test_neither_owners_nor_modes_come_out_of_an_archive(tmp_path: Path) -> None:
    info = member("run.sh", 3)
    info.mode, info.uid = 0o6777, 1
    extract(tarred(tmp_path / "modes.tar", info), tmp_path / "out")
    assert not (tmp_path / "out" / "run.sh").stat().st_mode & 0o6111
    assert (tmp_path / "out" / "run.sh").stat().st_uid == os.getuid()


def test_a_killed_process_leaves_a_hidden_folder_that_the_next_one_removes(tmp_path: Path) -> None:
    archive = pack(tmp_path / "birds.zip", FILES)
    program = (
        "import sys, time; from pathlib import Path; from data.archive_builders import extract\n"
        "extract(Path(sys.argv[1]), Path(sys.argv[2]),"
        " progress=lambda *_: (print('begun', flush=True), time.sleep(60)))"
    )
    command = [sys.executable, "-c", program, str(archive), str(tmp_path / "out")]
    tests = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
    with subprocess.Popen(command, stdout=-1, text=True, env=os.environ | tests) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        assert not (tmp_path / "out").exists()
        with pytest.raises(UserError, match=r"another process is at work in .*\.out\.partial; wait until"):
            extract(archive, tmp_path / "out")
        process.send_signal(signal.SIGKILL)
    (tmp_path / ".out.partial" / "left").write_text("by the killed one")
    extract(archive, tmp_path / "out")
    assert sorted(os.listdir(tmp_path)) == ["birds.zip", "out"]
    assert sorted(os.listdir(tmp_path / "out")) == ["birds"]


def test_an_interrupted_one_leaves_nothing(tmp_path: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract(pack(tmp_path / "birds.zip", FILES), tmp_path / "out", progress=interrupt)
    assert os.listdir(tmp_path) == ["birds.zip"]


def test_a_workspace_follows_no_link_and_needs_a_place_that_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "photo.jpg").write_text("mine")
    (tmp_path / ".out.partial").symlink_to(tmp_path / "precious")
    with (
        pytest.raises(UserError, match=r"\.out\.partial must be a folder that can be made"),
        workspace(tmp_path / "out"),
    ):
        pytest.fail("it is a link")
    assert (tmp_path / "precious" / "photo.jpg").read_text() == "mine"


def test_a_thousand_small_files_are_unpacked_without_delay(tmp_path: Path) -> None:
    """What a member costs beside its bytes: bounded loosely, so that only a blunder fails."""
    archive = pack(tmp_path / "many.tar.gz", {f"class {i % 40}/{i}.jpg": bytes(100) for i in range(1000)})
    start = time.perf_counter()
    extract(archive, tmp_path / "out")
    assert time.perf_counter() - start < 5
    assert len(list((tmp_path / "out").glob("*/*.jpg"))) == 1000
