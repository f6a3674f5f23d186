from __future__ import annotations

import dataclasses
import os
import shutil
import tarfile
from pathlib import Path
from typing import get_args

import pytest
from data import tiny_layouts
from data.packed_sets import digest, packed, publish, refusal

from dmltune.data import catalog
from dmltune.data.images import Part
from dmltune.data.obtain import RELEASES
from dmltune.data.prepare import PreparedData, prepare


@pytest.mark.parametrize("kind", ["zip", "gztar"])
@pytest.mark.parametrize("name", [name for name in tiny_layouts.NAMES if name != "cub"])
def test_an_archive_of_every_data_set_becomes_a_folder_that_loads(
    name: str, kind: str, tmp_path: Path
) -> None:
    root = tmp_path / "data"
    prepared = prepare(name, root, packed(name, tmp_path, kind=kind))
    halves = [catalog.load(name, part, root) for part in get_args(Part)]
    assert prepared.images == sum(map(len, halves)) == 12
    assert prepared.classes == sum(half.num_classes for half in halves) == 6
    assert os.listdir(root) == [prepared.folder.name]
    assert prepared.folder.parent == root


def test_it_says_what_was_done_and_what_is_not_as_published(tmp_path: Path) -> None:
    prepared = prepare("cub", tmp_path / "data", packed("cub", tmp_path, per_class=1))
    folder = tmp_path / "data" / "CUB_200_2011"
    assert prepared == PreparedData(
        folder=folder,
        classes=200,
        images=200,
        notes=(
            "mine.zip is not a published file: its checksum is not known",
            f"unpacked as {folder}",
            "train: 100 images of 100 classes; NOT as published: 100 of 5,864 images, 100 of 100 classes",
            "test: 100 images of 100 classes; NOT as published: 100 of 5,924 images, 100 of 100 classes",
        ),
    )


def test_the_second_time_nothing_is_done(tmp_path: Path) -> None:
    root, archive = tmp_path / "data", packed("sop", tmp_path)
    first = prepare("sop", root, archive)
    files = {file: file.stat().st_mtime_ns for file in root.rglob("*")}
    archive.write_text("not looked at again")
    for where in (root, root / "Stanford_Online_Products"):
        again = prepare("sop", where, archive)
        assert again.notes[0] == f"{first.folder} exists: nothing was done"
        assert (again.images, again.classes, again.folder) == (first.images, first.classes, first.folder)
    assert {file: file.stat().st_mtime_ns for file in root.rglob("*")} == files


@pytest.mark.parametrize("release", [0, 1])
def test_a_release_of_several_files_is_found_beside_the_one_that_is_named(
    release: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both releases of cars196, as they are published; with the checksums of the tiny ones."""
    folder = tiny_layouts.cars196_devkit(tmp_path / "copy", 3, 2) if release else None
    folder = folder or tiny_layouts.cars196(tmp_path / "copy", 3, 2)
    shop = tmp_path / "shop"
    shop.mkdir()
    for inside in [path for path in folder.iterdir() if path.is_dir()]:
        name = {"devkit": "car_devkit"}.get(inside.name, inside.name)
        with tarfile.open(shop / f"{name}.tgz", "w:gz") as tar:
            tar.add(inside, inside.name, filter=lambda info: None if "withlabels" in info.name else info)
    for file in folder.rglob("*.mat"):
        if file.name in ("cars_annos.mat", "cars_test_annos_withlabels.mat"):
            shutil.copy(file, shop)
    files = RELEASES["cars196"][release].files
    known = [dataclasses.replace(file, checksum=digest(shop / file.name)) for file in files]
    publish(monkeypatch, "cars196", *known)
    last = shop / known[-1].name
    assert prepare("cars196", tmp_path / "data", last).images == 12
    assert prepare("cars196", tmp_path / "other", shop).notes[0] == f"{known[0].name} is as published"
    last.rename(tmp_path / "elsewhere.mat")
    why = refusal("cars196", tmp_path / "third", shop / known[0].name)
    assert f"shop has no {known[-1].name}: put all of them into one folder" in why
    assert "shop lacks files of every release of cars196: get " in refusal(
        "cars196", tmp_path / "third", shop
    )


def test_images_that_are_packed_once_more_are_unpacked_too(tmp_path: Path) -> None:
    folder = tiny_layouts.inshop(tmp_path / "copy", 3, 2)
    shutil.make_archive(str(folder / "Img" / "img"), "zip", folder / "Img", "img")
    shutil.rmtree(folder / "Img" / "img")
    archive = shutil.make_archive(str(tmp_path / "drive"), "zip", tmp_path / "copy")
    prepared = prepare("inshop", tmp_path / "data", Path(archive))
    assert prepared.images == 12
    assert os.listdir(prepared.folder / "Img") == ["img"]


def test_a_bomb_in_the_archive_inside_is_refused_within_the_limits_of_the_outer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_layouts.inshop(tmp_path / "copy", 3, 2)
    (folder / "Img" / "img" / "zeros.jpg").write_bytes(bytes(30_000_000))
    shutil.make_archive(str(folder / "Img" / "img"), "zip", folder / "Img", "img")
    shutil.rmtree(folder / "Img" / "img")
    archive = Path(shutil.make_archive(str(tmp_path / "drive"), "zip", tmp_path / "copy"))
    assert "a zip bomb?" in refusal("inshop", tmp_path / "data", archive)


def test_the_data_set_is_found_within_folders_around_it(tmp_path: Path) -> None:
    tiny_layouts.sop(tmp_path / "copy" / "backup" / "of disk 2", 3, 2)
    (tmp_path / "copy" / "__MACOSX").mkdir()
    archive = Path(shutil.make_archive(str(tmp_path / "mine"), "tar", tmp_path / "copy"))
    assert prepare("sop", tmp_path / "data", archive).images == 12
    bare = shutil.make_archive(
        str(tmp_path / "bare"), "tar", tmp_path / "data" / "Stanford_Online_Products"
    )  # the files without the folder
    assert prepare("sop", tmp_path / "other", Path(bare)).folder.name == "Stanford_Online_Products"


def test_faces_to_train_on_only_are_one_line(tmp_path: Path) -> None:
    folder = tiny_layouts.faces(tmp_path / "copy", 3, 2)
    shutil.rmtree(folder / "test")
    archive = Path(shutil.make_archive(str(tmp_path / "mine"), "zip", tmp_path / "copy"))
    assert "faces: no people to test on; put a folder for each" in refusal(
        "faces", tmp_path / "data", archive
    )


def evil(folder: Path, archive: str, name: str, kind: bytes = tarfile.REGTYPE, size: int = 0) -> Path:
    """A good copy with one member more."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, "/etc", size
    tiny_layouts.sop(folder / "copy", 3, 2)
    with tarfile.open(folder / archive, "w:gz") as tar:
        tar.add(folder / "copy", "")
        with open("/dev/zero", "rb") as zeros:
            tar.addfile(info, zeros)
    return folder / archive


@pytest.mark.parametrize(
    ("member", "why"),
    [
        ({"name": "../evil.txt"}, "'../evil.txt' leads outside"),
        ({"name": "/tmp/evil.txt"}, "absolute"),
        ({"name": "link", "kind": tarfile.SYMTYPE}, "'link' is a link"),
        ({"name": "zeros", "size": 30_000_000}, "a zip bomb?"),
    ],
)
def test_an_evil_archive_is_refused_in_one_line_and_leaves_nothing(
    member: dict[str, object], why: str, tmp_path: Path
) -> None:
    archive = evil(tmp_path, "evil.tgz", **member)  # type: ignore[arg-type]
    beside = sorted(path for path in tmp_path.rglob("*"))
    (tmp_path / "data").mkdir()
    assert why in refusal("sop", tmp_path / "data", archive)
    assert sorted(path for path in tmp_path.rglob("*") if path != tmp_path / "data") == beside


def test_a_published_file_with_a_wrong_checksum_is_refused_with_its_remedy(tmp_path: Path) -> None:
    archive = packed("cub", tmp_path, per_class=1).rename(tmp_path / "CUB_200_2011.tgz")
    why = refusal("cub", tmp_path / "data", archive)
    assert "CUB_200_2011.tgz must have 1,150,585,339 bytes and the checksum md5:97ec" in why
    assert "fetch it again. If it is an archive of your own, rename it." in why
    archive = packed("sop", tmp_path, "Stanford_Online_Products")
    why = refusal("sop", tmp_path / "data", archive)
    assert (
        "Stanford_Online_Products.zip must have the checksum md5 7f73d41a2f44250d4779881525aea32e; got "
        in why
    )
    own = archive.rename(tmp_path / "ours.zip")
    assert prepare("sop", tmp_path / "data", own).images == 12


def test_an_archive_without_the_data_set_or_with_a_torn_one_is_one_line(tmp_path: Path) -> None:
    root = tmp_path / "data"
    why = refusal("cub", root, packed("sop", tmp_path, "things"))
    assert (
        "things.zip must have a folder with classes.txt, images.txt, image_class_labels.txt, and has" in why
    )
    assert "get CUB_200_2011.tgz (from https://data.caltech.edu/records/65de6-vp158), and name it with" in why
    folder = tiny_layouts.sop(tmp_path / "torn", 3, 2)
    next(folder.rglob("*.JPG")).unlink()
    torn = Path(shutil.make_archive(str(tmp_path / "torn"), "zip", tmp_path / "torn"))
    why = refusal("sop", root, torn)
    assert "sop: torn.zip/Stanford_Online_Products/" in why
    assert ".JPG is listed in torn.zip/Stanford_Online_Products/Ebay_" in why


def test_a_copy_that_is_there_but_not_whole_is_neither_taken_nor_overwritten(tmp_path: Path) -> None:
    archive = packed("sop", tmp_path)
    root = tmp_path / "data"
    (root / "Stanford_Online_Products").mkdir(parents=True)
    why = refusal("sop", root, archive)
    assert "Stanford_Online_Products is not a complete sop; move it away and prepare sop again." in why
    (root / "Stanford_Online_Products").rmdir()
    prepare("sop", root, archive)
    next(root.rglob("*.JPG")).unlink()
    why = refusal("sop", root, archive)
    assert "is listed in" in why
    assert why.endswith("Or move " + f"{root}/Stanford_Online_Products away and prepare sop again.")


def test_what_is_installed_needs_no_archive(tmp_path: Path) -> None:
    prepared = prepare("digits", tmp_path / "data")
    assert prepared.images == 1797
    assert prepared.notes[0] == "nothing to fetch or unpack: it comes with dmltune"
    assert not (tmp_path / "data").exists()


def test_an_unknown_name_a_missing_archive_and_a_root_that_is_a_file_are_one_line(tmp_path: Path) -> None:
    assert "no data set 'cup'; did you mean 'cub'?" in refusal("cup", tmp_path)
    assert "--archive must be an existing file; got " in refusal("cub", tmp_path, tmp_path / "none.tgz")
    root = tmp_path / "data"
    root.write_text("a file")
    assert "must be a folder that can be made and written (" in refusal("sop", root, packed("sop", tmp_path))
