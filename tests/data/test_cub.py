from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from data import tiny_layouts
from PIL import Image

from dmltune.data import catalog, packed
from dmltune.data.images import ImageSet
from dmltune.data.splits import PARTITIONS, split
from dmltune.errors import UserError


@pytest.fixture
def small_copy(tmp_path: Path) -> Path:
    """The original layout with one small picture of noise for each of the 200 classes."""
    return tiny_layouts.write("cub", tmp_path / "data", 100, 1)


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


def test_the_birds_have_the_fingerprints_they_always_had(data_root: Path) -> None:
    """Searches under the same name go on only while the fingerprint stays."""
    train, test = (catalog.load("cub", part, data_root) for part in ("train", "test"))
    assert (train.fingerprint, test.fingerprint) == ("576a7f48f008db17", "99d097995ef4bd51")
    assert catalog.lacking(train) == catalog.lacking(test) == ""


def test_fingerprint_and_key_are_hashes_of_names_sizes_place_and_times(small_copy: Path) -> None:
    train = catalog.load("cub", "train", small_copy)
    paths = [f"{name}/0.jpg" for name in train.class_names]
    stats = [(small_copy / "images" / path).stat() for path in paths]
    listing = [(path, stat.st_size) for path, stat in zip(paths, stats, strict=True)]

    def digest(*content: object) -> str:
        return hashlib.sha256(repr(content).encode()).hexdigest()[:16]

    assert train.fingerprint == digest(train.class_names, listing)
    times = [stat.st_mtime_ns for stat in stats]
    assert train.key == digest(str(small_copy.resolve()), listing, times)


def test_the_first_hundred_classes_train_and_the_others_test(small_copy: Path) -> None:
    train, test = (catalog.load("cub", part, small_copy) for part in ("train", "test"))
    assert [int(name[:3]) for name in train.class_names] == list(range(1, 101))
    assert [int(name[:3]) for name in test.class_names] == list(range(101, 201))
    assert train.read([4])[0].shape[0] == 45  # each class with its own picture: bird 5 is 40 + 5 high
    assert test.read([4])[0].shape[0] == 40  # bird 105


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
    black = small_copy / "images" / "001.Bird_1" / "0.jpg"
    Image.new("RGB", (60, 40)).save(black)
    second = packed.at_size(catalog.load("cub", "train", small_copy), 16).read([0])[0]
    assert first.any()
    assert not second.any()


def test_a_set_that_is_quick_to_read_is_not_packed(make_set: Callable[..., ImageSet]) -> None:
    images = make_set([2, 2])
    assert packed.at_size(images, 8) is images


def test_an_incomplete_copy_is_one_clear_line(small_copy: Path) -> None:
    names = small_copy / "classes.txt"
    names.write_text("\n".join(names.read_text().splitlines()[:60]))
    with pytest.raises(UserError, match=r"lists 60 of the 100 train classes .* fetch CUB_200_2011 again"):
        catalog.load("cub", "train", small_copy)
