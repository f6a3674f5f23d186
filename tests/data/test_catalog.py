from __future__ import annotations

import subprocess
import sys
from io import BufferedReader
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from data import tiny_layouts
from PIL import Image

from dmltune.data import catalog
from dmltune.data.images import ImageSet, Part
from dmltune.errors import UserError

CIFAR = ("cifar100", "cifar_collage", "cifar_distilled", "cifar_singles")


def test_every_file_of_the_catalog_is_a_data_set() -> None:
    folder = Path(catalog.__file__).parent
    assert catalog.names() == tuple(sorted(file.stem for file in folder.glob("[!_]*.py")))
    assert {"glyphs", *tiny_layouts.NAMES} <= set(catalog.names())


@pytest.fixture(scope="module", params=catalog.names())
def parts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[Part, ImageSet]:
    """Both halves of each data set: of a tiny copy where there is a writer of one."""
    root = tmp_path_factory.mktemp("data")
    if request.param in tiny_layouts.NAMES:
        tiny_layouts.write(request.param, root)
    if request.param in CIFAR:
        tiny_layouts.cifar100(root / "cifar-100-binary")
    try:
        return {part: catalog.load(request.param, part, root) for part in get_args(Part)}
    except UserError as error:
        if request.param in (*tiny_layouts.NAMES, *CIFAR, "glyphs"):
            raise
        pytest.skip(f"{error}")  # one that must be fetched and has tests of its own


def test_the_parts_of_every_data_set_have_no_class_in_common(parts: dict[Part, ImageSet]) -> None:
    assert not set(parts["train"].class_names) & set(parts["test"].class_names)
    assert parts["train"].fingerprint != parts["test"].fingerprint


def test_every_data_set_keeps_the_promises_of_an_image_set(parts: dict[Part, ImageSet]) -> None:
    for part, images in parts.items():
        assert images.part == part
        assert images.labels_N.dtype == np.int64
        assert np.array_equal(np.unique(images.labels_N), np.arange(images.num_classes))
        assert len(set(images.class_names)) == images.num_classes
        assert len(images.fingerprint) == 16
        assert int(images.fingerprint, 16) >= 0
        if images.category_N is not None:
            assert images.category_N.dtype == np.int64
            known = images.category_N[images.category_N != -1]
            assert np.array_equal(np.unique(known), np.arange(len(images.category_names)))
        if images.query_N is not None:
            assert images.query_N.dtype == np.bool_
            assert len(images.query_N) == len(images)
        order = [len(images) - 1, 0, 3]
        for one, index in zip(images.read(order), order, strict=True):
            assert one.dtype == np.uint8
            assert one.ndim == 3
            assert np.array_equal(one, images.read([index])[0])
        assert all(min(one.shape[:2]) <= 20 for one in images.read(order, side=20))


def test_a_set_of_the_first_classes_keeps_labels_categories_and_queries_with_their_images(
    parts: dict[Part, ImageSet],
) -> None:
    for images in parts.values():
        few = images.first_classes(3)
        kept = [index for index, label in enumerate(images.labels_N) if label < 3]
        for field in ("labels_N", "category_N", "query_N"):
            whole, part = getattr(images, field), getattr(few, field)
            assert (whole is None) == (part is None)
            if whole is not None:
                assert part.tolist() == [whole[index] for index in kept]
        if (
            type(images) is ImageSet
        ):  # collages deal what is around the image again: see test_glyph_collage.py
            assert np.array_equal(few.read([1])[0], images.read([kept[1]])[0])


PHOTOS = tiny_layouts.NAMES


def test_each_class_has_its_own_pictures_whatever_the_layout(tmp_path: Path) -> None:
    """The tiny pictures are 40 + number % 7 high; class names end with the number."""
    for name in PHOTOS:
        root = tiny_layouts.write(name, tmp_path, 3, 2)
        for part in get_args(Part):
            images = catalog.load(name, part, root)
            for label, picture in zip(images.labels_N, images.read(range(len(images))), strict=True):
                digits = "".join(filter(str.isdigit, images.class_names[label].replace("_", " ").split()[-1]))
                assert picture.shape == (40 + int(digits) % 7, 60, 3)


@pytest.mark.parametrize("name", PHOTOS)
def test_the_root_may_be_the_folder_or_its_parent_or_come_from_the_environment(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_layouts.write(name, tmp_path, 2, 2)
    monkeypatch.setenv("DMLTUNE_DATA", str(tmp_path))
    found = [catalog.load(name, "train", root) for root in (folder, tmp_path, None)]
    assert len({images.fingerprint for images in found}) == 1
    assert len({images.key for images in found}) == 1


@pytest.mark.parametrize("name", PHOTOS)
def test_training_touches_no_test_image_and_a_missing_one_is_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tiny_layouts.write(name, tmp_path, 2, 2)
    opened: list[Path] = []
    image_open = Image.open

    def recorded_open(stream: BufferedReader, **options: Any) -> Image.Image:
        opened.append(Path(stream.name))
        return image_open(stream, **options)

    monkeypatch.setattr(Image, "open", recorded_open)
    whole, test = (catalog.load(name, part, root) for part in ("train", "test"))
    test.read(range(len(test)))
    assert len(set(opened)) == len(test)
    for file in opened:
        file.unlink()
    train = catalog.load(name, "train", root)
    assert (train.fingerprint, train.key) == (whole.fingerprint, whole.key)
    assert len(train.read(range(len(train)))) == len(whole)
    missing = "no image in the folders of" if name == "faces" else "is listed in .* but missing; fetch "
    with pytest.raises(UserError, match=f"{name}: .*{missing}") as caught:
        catalog.load(name, "test", root)
    assert "\n" not in str(caught.value)


def test_a_torn_image_is_named(tmp_path: Path) -> None:
    for name in PHOTOS:
        root = tiny_layouts.write(name, tmp_path, 2, 2)
        for file in root.rglob("*.*"):
            if file.suffix.lower() in (".jpg", ".png"):
                file.write_bytes(file.read_bytes()[:200])
        train = catalog.load(name, "train", root)
        with pytest.raises(
            UserError, match=rf"{name}: .*\.(jpg|JPG|png) cannot be read \(.*\); fetch "
        ) as caught:
            train.read([1])
        assert "\n" not in str(caught.value)


def test_a_missing_root_says_what_was_looked_for_where_and_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in PHOTOS:
        with pytest.raises(
            UserError, match=r"no .+ \(with .+\) in '/.*'; say where it is with --data-root or"
        ):
            catalog.load(name, "train", tmp_path)
        monkeypatch.delenv("DMLTUNE_DATA", raising=False)
        with pytest.raises(
            UserError, match=r"needs the folder .+; say where it is with --data-root or DMLTUNE_"
        ):
            catalog.load(name, "train")


def test_a_part_knows_what_it_lacks_of_what_was_published(tmp_path: Path) -> None:
    tiny_layouts.write("sop", tmp_path, 3, 2)
    tiny_layouts.write("faces", tmp_path, 3, 2)
    tiny_layouts.write("vehicleid", tmp_path, 3, 2)
    train = catalog.load("sop", "train", tmp_path)
    assert catalog.lacking(train) == "6 of 59,551 images, 3 of 11,318 classes"
    test = catalog.load("vehicleid", "test", tmp_path)  # how many images were published is not known
    assert catalog.lacking(test) == "3 of 2,400 classes"
    assert catalog.lacking(catalog.load("faces", "train", tmp_path)) == ""  # not one published set
    assert catalog.lacking(catalog.load("glyphs", "train")) == ""


def test_what_is_not_in_the_catalog_is_one_clear_line() -> None:
    for name, part, options, message in [
        ("glyhps", "train", {}, r"no data set 'glyhps'; did you mean 'glyphs'\?"),
        ("imagenet", "train", {}, r"no data set 'imagenet'; there are .*\bcub, .*glyphs.*\."),
        ("glyphs", "validation", {}, "has the parts 'train' and 'test'; got 'validation'"),
        ("glyphs", "train", {"sise": 3}, "unknown option 'sise' of data set 'glyphs'"),
    ]:
        with pytest.raises(UserError, match=message):
            catalog.load(name, part, None, **options)


def test_naming_the_data_sets_imports_neither_torch_nor_fonts_nor_scipy() -> None:
    program = (
        "import sys; from dmltune.data import catalog; catalog.names();"
        " print({'torch', 'matplotlib', 'scipy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "set()\n"
