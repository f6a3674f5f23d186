from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from data import tiny_layouts
from PIL import Image

from dmltune.data import catalog
from dmltune.data.catalog._own_folders import deal
from dmltune.data.images import ImageSet, Part
from dmltune.errors import UserError
from dmltune.experiment import Experiment

NAMES = [f"shoe {number}" for number in range(12)]
BOTH = get_args(Part)


def photos(base: Path, names: list[str] = NAMES, each: int = 3) -> Path:
    """Class folders; a picture's height tells its class."""
    for number, name in enumerate(names):
        for index in range(each):
            tiny_layouts.picture(base / name / f"{index}.jpg", number, index)
    return base


def table(file: Path, rows: list[list[str]], delimiter: str = ",") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, delimiter=delimiter).writerows(rows)
    return file


def own(part: Part, path: Path) -> ImageSet:
    return catalog.load("own", part, path=path)


def test_class_folders_are_dealt_to_two_halves_by_their_names(tmp_path: Path) -> None:
    photos(tmp_path)
    halves = {part: own(part, tmp_path) for part in BOTH}
    for part, images in halves.items():
        assert list(images.class_names) == sorted(name for name in NAMES if deal(NAMES)[name] == part)
        for label, picture in zip(images.labels_N, images.read(range(len(images))), strict=True):
            assert picture.shape == (40 + NAMES.index(images.class_names[label]) % 7, 60, 3)
    assert sum(map(len, halves.values())) == 36
    assert not set(halves["train"].class_names) & set(halves["test"].class_names)


def test_classes_added_later_move_no_other_class(tmp_path: Path) -> None:
    many = [f"shoe {number}" for number in range(40)]
    photos(tmp_path, many, each=1)
    before = {part: set(own(part, tmp_path).class_names) for part in BOTH}
    photos(tmp_path, [f"boot {number}" for number in range(9)], each=1)
    for part in BOTH:
        assert before[part] == {name for name in own(part, tmp_path).class_names if "shoe" in name}


def test_about_half_of_many_names_fall_into_either_half() -> None:
    tests = list(deal(f"class {number}" for number in range(2000)).values()).count("test")
    assert 900 < tests < 1100
    names = [f"class {number}" for number in range(40)]
    composed, spelt = deal([*names, "caf\u00e9"]), deal([*names, "cafe\u0301"])
    assert composed["caf\u00e9"] == spelt["cafe\u0301"]  # the same name, as macOS writes it


def test_of_few_names_exactly_half_test() -> None:
    for count in range(2, 40):
        halves = list(deal(f"class {number}" for number in range(count)).values())
        assert halves.count("test") == count // 2


@pytest.mark.parametrize("splits", [("train", "test"), ("train", "query", "gallery")])
def test_folders_train_and_test_or_query_and_gallery_say_the_halves(
    splits: tuple[str, ...], tmp_path: Path
) -> None:
    for split in splits:
        photos(tmp_path / split, NAMES[:5] if split == "train" else NAMES[5:], each=2)
    train, test = (own(part, tmp_path) for part in BOTH)
    assert list(train.class_names) == sorted(NAMES[:5])
    assert list(test.class_names) == sorted(NAMES[5:])
    if "query" in splits:
        assert test.query_N is not None
        assert len(test) == 28
        assert np.bincount(test.labels_N[test.query_N]).tolist() == [2] * 7
    else:
        assert test.query_N is None
    assert train.query_N is None


def test_what_lies_deeper_is_of_the_class_and_what_is_hidden_or_no_image_is_passed_over(
    tmp_path: Path,
) -> None:
    photos(tmp_path, each=1)
    tiny_layouts.picture(tmp_path / NAMES[0] / "red" / "left" / "7.PNG", 0, 7)
    before = {part: own(part, tmp_path) for part in BOTH}
    assert sum(map(len, before.values())) == 13
    tiny_layouts.picture(tmp_path / NAMES[0] / ".thumbnails" / "0.jpg", 0, 0)
    tiny_layouts.picture(tmp_path / ".git" / "0.jpg", 0, 0)
    (tmp_path / NAMES[1] / "._0.jpg").write_bytes(b"what macOS keeps")
    (tmp_path / NAMES[1] / "notes.txt").write_text("bought in May")
    (tmp_path / "empty").mkdir()
    for part in BOTH:
        after = own(part, tmp_path)
        assert (after.fingerprint, after.class_names) == (before[part].fingerprint, before[part].class_names)


def test_a_link_is_followed_inside_only_and_a_circle_of_links_ends(tmp_path: Path) -> None:
    base = photos(tmp_path / "photos", ["a", "b"], each=2)
    part, other = deal(["a", "b"])["a"], "b"
    (base / "a" / "more").symlink_to(base / other, target_is_directory=True)
    (base / other / "back").symlink_to(base / "a", target_is_directory=True)
    assert (own(part, base).labels_N == 0).sum() >= 4
    elsewhere = photos(tmp_path / "elsewhere", ["c"], each=1)
    (base / "a" / "x.jpg").symlink_to(elsewhere / "c" / "0.jpg")
    with pytest.raises(UserError, match=r"own: .*photos/a/x\.jpg is a link out of .*photos; put its"):
        own(part, base)


def test_only_the_halfs_own_images_are_looked_at_and_one_that_is_gone_is_named(tmp_path: Path) -> None:
    rows = [["path", "label"], *([f"{name}/0.jpg", name] for name in NAMES)]
    file = table(photos(tmp_path, each=1) / "photos.csv", rows)
    train = own("train", file)
    for name in NAMES:
        if deal(NAMES)[name] == "test":
            (tmp_path / name / "0.jpg").unlink()
    assert own("train", file).key == train.key
    line = next(number for number, name in enumerate(NAMES, 2) if deal(NAMES)[name] == "test")
    with pytest.raises(
        UserError, match=rf"photos\.csv:{line}: no image .*0\.jpg \(No such file.*; put it back or delete"
    ):
        own("test", file)


def test_a_table_has_labels_categories_and_splits(tmp_path: Path) -> None:
    photos(tmp_path / "images")
    rows = [["price", "path", "label", "category", "split"]]
    for number, name in enumerate(NAMES):
        for index in range(3):
            split = "train" if number < 6 else ("query", "gallery")[min(index, 1)]
            kind = ("boots", "sandals", "")[number % 3]
            rows.append(["9.5", f"images/{name}/{index}.jpg", name.upper(), kind, split])
    file = table(tmp_path / "photos.csv", rows)
    train, test = (own(part, file) for part in BOTH)
    assert train.class_names == tuple(sorted(name.upper() for name in NAMES[:6]))
    assert train.category_names == ("boots", "sandals")
    assert train.category_N is not None
    assert train.category_N.tolist() == [value for value in (0, 1, -1, 0, 1, -1) for _ in range(3)]
    assert test.query_N is not None
    assert test.query_N.tolist() == [True, False, False] * 6
    changed = [[*row[:2], "OTHER", *row[3:]] if row[2] == "SHOE 0" else row for row in rows]
    assert own("train", table(tmp_path / "photos.csv", changed)).fingerprint != train.fingerprint


@pytest.mark.parametrize("form", ["semicolons", "tabs", "parquet", "byte order mark"])
def test_other_forms_of_a_table_mean_the_same(form: str, tmp_path: Path) -> None:
    photos(tmp_path)
    rows = [["path", "label"], *([f"{name}/{index}.jpg", name] for name in NAMES for index in range(3))]
    plain = own("train", table(tmp_path / "photos.csv", rows))
    if form == "parquet":
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        file = tmp_path / "photos.parquet"
        columns = dict(zip(rows[0], zip(*rows[1:], strict=True), strict=True))
        parquet.write_table(pyarrow.table({"width": [60] * 36, **columns}), file)
    elif form == "byte order mark":
        file = tmp_path / "marked.csv"
        file.write_text("\ufeff" + (tmp_path / "photos.csv").read_text(), encoding="utf-8")
    else:
        file = table(tmp_path / "other.tsv", rows, ";" if form == "semicolons" else "\t")
    other = own("train", file)
    assert (other.fingerprint, other.class_names) == (plain.fingerprint, plain.class_names)


def test_a_mistake_in_a_table_is_one_line_with_file_and_line(tmp_path: Path) -> None:
    for text, message in [
        ("", r"bad\.csv:1: no column path; the columns are none"),
        ("path,label\n", r"bad\.csv lists no image"),
        ("file,label\na.jpg,x\n", r"bad\.csv:1: no column path; the columns are file, label"),
        ("path,labels\na.jpg,x\n", r"bad\.csv:1: no column label; rename 'labels'"),
        ("path,label,catagory\na,x,y\n", r"bad\.csv:1: no column category; rename 'catagory' or take it out"),
        ("path,path,label\na,a,x\n", r"bad\.csv:1: two columns path"),
        ("path,label\na.jpg,x\n\nb.jpg,\n", r"bad\.csv:4: no label; every line needs path and label"),
        ("path,label\na.jpg,x,y\n", r"bad\.csv:2: 3 fields under 2 column names; quote a field"),
        ("path,label\na.jpg,x\na.jpg,y\n", r"bad\.csv:3: a\.jpg is listed already at .*bad\.csv:2; keep"),
        ('path,label\n"a.jpg,x\n', r"bad\.csv: after line \d: .*; check the quotes"),
        ("path,label,split\na,x,trian\n", r"bad\.csv:2: split is 'trian'; did you mean 'train'\?"),
        ("path,label,split\na,x,\n", r"bad\.csv:2: split is ''; write train, test, query or gallery"),
        (
            "path,label,split\na,x,train\nb,x,test\n",
            r"bad\.csv:3: class 'x' has split test, but train at .*:2",
        ),
        ("path,label,split\na,x,test\nb,y,query\n", r"bad\.csv:3: split query beside test; use test, or"),
        ("path,label,split\na,x,train\nb,y,query\n", r"bad\.csv:3: split query, but no line has gallery"),
        ("path,label,split\na,x,test\n", r"bad\.csv has no image with split train; give some classes"),
        (
            "path,label\ncaf\udce9,x\n",
            r"bad\.csv: byte 0xe9 after line 1 is not UTF-8; save the file as UTF-8",
        ),
    ]:
        file = tmp_path / "bad.csv"
        file.write_bytes(text.encode("utf-8", errors="surrogateescape"))
        with pytest.raises(UserError, match=message) as caught:
            own("train", file)
        assert "\n" not in str(caught.value)


def test_folders_that_say_no_halves_are_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no folder in .*; put a folder for each class there"):
        own("train", tmp_path)
    photos(tmp_path / "train", ["a", "b"], each=1)
    with pytest.raises(UserError, match=r"own: no image in .*/test; put a folder for each class there"):
        own("test", tmp_path)
    photos(tmp_path / "test", ["b", "c"], each=1)
    with pytest.raises(UserError, match=r"own: class 'b' is in train and in test of .*; train and test must"):
        own("train", tmp_path)
    (tmp_path / "val").mkdir()
    with pytest.raises(UserError, match=r"has a folder val, but validation classes are taken from train"):
        own("train", tmp_path)


def test_a_half_without_a_class_says_how_to_deal_otherwise(tmp_path: Path) -> None:
    photos(tmp_path, ["alone"], each=1)
    assert own("train", tmp_path).num_classes == 1
    with pytest.raises(UserError, match=r"has no class for the test half; add classes, or define the halves"):
        own("test", tmp_path)


def test_no_path_or_a_wrong_one_says_what_it_may_be(tmp_path: Path) -> None:
    for path in [None, "nowhere", "photos.txt"]:
        (tmp_path / "photos.txt").write_text("a b")
        with pytest.raises(
            UserError, match=r"data\.path.*: a folder with|must be a folder with .*; got '/.*"
        ):
            catalog.load("own", "train", None, path=path and tmp_path / path)


def test_photos_are_turned_as_the_camera_says_and_what_is_transparent_is_white(tmp_path: Path) -> None:
    rows = [["path", "label", "split"], ["turned.jpg", "a", "train"], ["clear.png", "b", "train"]]
    picture = Image.new("RGB", (60, 40), "red")
    exif = picture.getexif()
    exif[0x0112] = 6  # the camera was held upright
    picture.save(tmp_path / "turned.jpg", exif=exif)
    Image.new("RGBA", (5, 5), (0, 0, 0, 0)).save(tmp_path / "clear.png")
    turned, clear = own("train", table(tmp_path / "photos.csv", rows)).read([0, 1])
    assert turned.shape == (60, 40, 3)
    assert (clear == 255).all()
    (tmp_path / "clear.png").write_bytes(b"no picture")
    with pytest.raises(UserError, match=r"own: .*clear\.png cannot be read \(.*\); put it right or take it"):
        own("train", tmp_path / "photos.csv").read([1])


def test_an_experiment_knows_the_place_from_wherever_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tree = {"data": {"name": "own", "path": "./photos"}, "loss": {"name": "triplet", "margin": 0.1}}
    chosen = Experiment.from_dict(tree)
    assert chosen.data.path == str(tmp_path / "photos")
    monkeypatch.chdir(os.sep)
    assert Experiment.from_dict(chosen.to_dict()).data.path == chosen.data.path
    with pytest.raises(UserError, match=r"unknown option 'path' of data set 'digits'"):
        catalog.load("digits", "train", None, path="photos")
