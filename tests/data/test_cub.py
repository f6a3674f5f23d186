from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dmltune.data import catalog, packed
from dmltune.data.catalog import cub
from dmltune.data.images import ImageSet, Part
from dmltune.data.splits import PARTITIONS, split
from dmltune.errors import UserError


@pytest.fixture
def small_copy(tmp_path: Path) -> Path:
    """The original layout with one small picture of noise for each of the 200 classes."""
    folder = tmp_path / "data" / "CUB_200_2011"
    classes = [f"{number:03d}.Bird_{number}" for number in range(1, 201)]
    lists: dict[str, list[str]] = {name: [] for name in cub.LISTS}
    for number, name in enumerate(classes, 1):
        (folder / "images" / name).mkdir(parents=True)
        pixels = np.random.default_rng(number).integers(0, 256, (40 + number % 7, 60, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "images" / name / "one.jpg")
        lists["classes.txt"].append(f"{number} {name}")
        lists["images.txt"].append(f"{number} {name}/one.jpg")
        lists["image_class_labels.txt"].append(f"{number} {number}")
    for file, lines in lists.items():
        (folder / file).write_text("\n".join(lines) + "\n")
    return folder


def test_the_birds_are_5864_to_train_on_and_5924_to_test(data_root: Path) -> None:
    train, test = (catalog.load("cub", part, data_root) for part in ("train", "test"))
    assert (len(train), train.num_classes, train.class_names[0]) == (5864, 100, "001.Black_footed_Albatross")
    assert (len(test), test.num_classes, test.class_names[99]) == (5924, 100, "200.Common_Yellowthroat")


@pytest.mark.parametrize("protocol", sorted(PARTITIONS))
def test_the_birds_are_class_disjoint_in_every_protocol(data_root: Path, protocol: str) -> None:
    labels_N = catalog.load("cub", "train", data_root).labels_N
    for fold in range(PARTITIONS[protocol]):
        part = split(labels_N, protocol, fold)
        assert not set(labels_N[part.train_N]) & set(labels_N[part.validation_N])


def test_the_root_may_be_the_folder_or_its_parent_or_come_from_the_environment(
    small_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DMLTUNE_DATA", str(small_copy.parent))
    found = [catalog.load("cub", "train", root).fingerprint for root in (small_copy, small_copy.parent, None)]
    assert len(set(found)) == 1


def test_the_first_hundred_classes_train_and_the_others_test(small_copy: Path) -> None:
    train, test = (catalog.load("cub", part, small_copy) for part in ("train", "test"))
    assert [int(name[:3]) for name in train.class_names] == list(range(1, 101))
    assert [int(name[:3]) for name in test.class_names] == list(range(101, 201))
    assert train.read([4])[0].shape[0] == 45  # each class with its own picture: bird 5 is 40 + 5 high
    assert test.read([4])[0].shape[0] == 40  # bird 105


def test_training_touches_no_test_image(small_copy: Path) -> None:
    for folder in (small_copy / "images").iterdir():
        if int(folder.name[:3]) > 100:
            shutil.rmtree(folder)
    train = catalog.load("cub", "train", small_copy)
    assert len(packed.at_size(train, 16).read(range(100))) == 100
    with pytest.raises(UserError, match=r"101\.Bird_101/one\.jpg is listed in .*images\.txt but missing"):
        catalog.load("cub", "test", small_copy)


def test_packed_images_are_the_decoded_ones_scaled_down(small_copy: Path) -> None:
    train = catalog.load("cub", "train", small_copy)
    small, large = packed.at_size(train, 16), packed.at_size(train, 500)
    order = [7, 0, 99]
    for kept, original in zip(large.read(order), train.read(order), strict=True):
        assert np.array_equal(kept, original)  # never enlarged
    for kept, original in zip(small.read(order), train.read(order, 19), strict=True):
        assert min(kept.shape[:2]) == 19  # 16 · 256/227, rounded up
        assert np.array_equal(kept, original)


def test_a_changed_image_is_not_served_from_the_old_pack(small_copy: Path) -> None:
    first = packed.at_size(catalog.load("cub", "train", small_copy), 16).read([0])[0]
    black = small_copy / "images" / "001.Bird_1" / "one.jpg"
    Image.new("RGB", (60, 40)).save(black)
    second = packed.at_size(catalog.load("cub", "train", small_copy), 16).read([0])[0]
    assert first.any()
    assert not second.any()


def test_a_set_that_is_quick_to_read_is_not_packed(make_set: Callable[..., ImageSet]) -> None:
    images = make_set([2, 2])
    assert packed.at_size(images, 8) is images


def test_a_torn_jpeg_is_named(small_copy: Path) -> None:
    file = small_copy / "images" / "003.Bird_3" / "one.jpg"
    file.write_bytes(file.read_bytes()[:200])
    train = catalog.load("cub", "train", small_copy)
    with pytest.raises(UserError, match=r"003\.Bird_3/one\.jpg cannot be read"):
        train.read([2])


def test_an_incomplete_copy_is_one_clear_line(small_copy: Path) -> None:
    names = small_copy / "classes.txt"
    names.write_text("\n".join(names.read_text().splitlines()[:60]))
    with pytest.raises(UserError, match=r"lists 60 of the 100 train classes .* fetch CUB_200_2011 again"):
        catalog.load("cub", "train", small_copy)


@pytest.mark.parametrize("part", ["train", "test"])
def test_a_missing_root_says_what_was_looked_for_where_and_the_remedy(
    part: Part, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        UserError, match=r"no CUB_200_2011 .* in .*; say where it is with --data-root or DMLTUNE_DATA"
    ):
        catalog.load("cub", part, tmp_path)
    monkeypatch.delenv("DMLTUNE_DATA", raising=False)
    with pytest.raises(UserError, match=r"needs the folder CUB_200_2011; .*--data-root or DMLTUNE_DATA"):
        catalog.load("cub", part)
