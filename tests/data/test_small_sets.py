"""CIFAR and MNIST from their original files, tiny; the digits of scikit-learn as they are."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from dmltune.data import catalog
from dmltune.data.images import ImageSet, Part
from dmltune.data.splits import PARTITIONS, split
from dmltune.errors import UserError

PARTS = get_args(Part)


def packed(content: bytes) -> bytes:
    """Without the time: tests are named by what they are given."""
    return gzip.compress(content, mtime=0)


def halves(name: str, root: Path | None) -> tuple[ImageSet, ImageSet]:
    return catalog.load(name, "train", root), catalog.load(name, "test", root)


def cifar10(root: Path) -> Path:
    """Each of the six files has every class once; a picture's red is its label, its green the file."""
    folder = root / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    for number, name in enumerate([*(f"data_batch_{batch}" for batch in range(1, 6)), "test_batch"]):
        pixels = [[label] + [label] * 1024 + [number] * 1024 + [9] * 1024 for label in range(10)]
        (folder / f"{name}.bin").write_bytes(np.array(pixels, np.uint8).tobytes())
    return folder


def cifar100(root: Path) -> Path:
    """Both files have every class once; the super-class is the remainder by 20."""
    folder = root / "cifar-100-binary"
    folder.mkdir(parents=True)
    for name in ("train", "test"):
        pixels = [[label % 20, label] + [label] * 1024 + [0] * 2048 for label in range(100)]
        (folder / f"{name}.bin").write_bytes(np.array(pixels, np.uint8).tobytes())
    (folder / "coarse_label_names.txt").write_text("".join(f"kind_{number}\n" for number in range(20)))
    return folder


def idx(values: np.ndarray) -> bytes:
    return struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape) + values.tobytes()


def mnist(root: Path, folder: str = "MNIST/raw", mark: str = "-", packed: bool = False) -> Path:
    """Digit d is a picture of 28 × 28 with the value 20 · d; ten to train, twenty to test."""
    place = root / folder
    place.mkdir(parents=True)
    for stem, count in (("train", 10), ("t10k", 20)):
        digits = np.arange(count, dtype=np.uint8) % 10
        pictures = np.repeat(20 * digits, 28 * 28).reshape(-1, 28, 28)
        for kind, values in (("images", pictures), ("labels", digits)):
            name = f"{stem}-{kind}{mark}idx{values.ndim}-ubyte" + (".gz" if packed else "")
            content = idx(values)
            (place / name).write_bytes(gzip.compress(content) if packed else content)
    return place


def test_cifar10_trains_with_the_first_five_classes_of_all_six_files(tmp_path: Path) -> None:
    folder = cifar10(tmp_path)
    (folder / "batches.meta.txt").write_text("".join(f"thing {label}\n" for label in range(10)) + "\n")
    train, test = halves("cifar10", tmp_path)
    assert train.class_names == tuple(f"thing {label}" for label in range(5))
    assert test.class_names == tuple(f"thing {label}" for label in range(5, 10))
    for images, first in ((train, 0), (test, 5)):
        assert np.bincount(images.labels_N).tolist() == [6] * 5
        for label, picture in zip(images.labels_N, images.read(range(30)), strict=True):
            assert picture.shape == (32, 32, 3)
            assert (picture[..., 0] == first + label).all()
            assert (picture[..., 2] == 9).all()
    assert catalog.lacking(train) == "30 of 30,000 images, 5 of 5 classes"


def test_cifar100_has_its_super_classes_as_categories(tmp_path: Path) -> None:
    train, test = halves("cifar100", cifar100(tmp_path))
    assert (train.num_classes, test.num_classes, len(train)) == (50, 50, 100)
    assert train.class_names[7] == "class 7"  # without the file of names
    assert train.category_N is not None
    assert all(
        train.category_names[kind] == f"kind_{label % 20}"
        for kind, label in zip(train.category_N, train.labels_N, strict=True)
    )


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("folder", "mark"), [("MNIST/raw", "-"), ("mnist", ".")])
def test_mnist_is_read_packed_or_not(folder: str, mark: str, packed: bool, tmp_path: Path) -> None:
    mnist(tmp_path, folder, mark, packed)
    train, test = halves("mnist", tmp_path)
    assert (len(train), len(test)) == (15, 15)
    assert test.class_names == tuple(f"digit {digit}" for digit in range(5, 10))
    for images, first in ((train, 0), (test, 5)):
        for label, picture in zip(images.labels_N, images.read(range(15)), strict=True):
            assert picture.shape == (28, 28, 1)
            assert (picture == 20 * (first + label)).all()


def test_the_digits_need_no_download_and_are_all_there() -> None:
    from sklearn.datasets import load_digits

    train, test = halves("digits", None)
    assert catalog.lacking(train) == catalog.lacking(test) == ""
    whole = load_digits()
    sevens = whole.images[whole.target == 7] * (255 / 16)
    ours = np.stack(test.read(np.flatnonzero(test.labels_N == 2)))[..., 0]
    assert np.abs(ours - sevens).max() <= 0.5
    assert ours.max() == 255


@pytest.mark.parametrize(("name", "write"), [("cifar10", cifar10), ("cifar100", cifar100), ("mnist", mnist)])
def test_a_fingerprint_is_of_the_content_and_of_one_half(
    name: str, write: Callable[[Path], Path], tmp_path: Path
) -> None:
    folder = write(tmp_path / "one")
    train, test = halves(name, folder)
    again = write(tmp_path / "two")
    assert [images.fingerprint for images in halves(name, again)] == [train.fingerprint, test.fingerprint]
    file = next(file for file in sorted(again.iterdir()) if "test" in file.name or "t10k-images" in file.name)
    content = bytearray(file.read_bytes())
    content[-1] ^= 1  # the last picture is of the last class, which tests
    file.write_bytes(content)
    changed = halves(name, again)
    assert changed[0].fingerprint == train.fingerprint
    assert changed[1].fingerprint != test.fingerprint


@pytest.mark.parametrize(
    ("name", "write"), [("cifar10", cifar10), ("cifar100", cifar100), ("mnist", mnist), ("digits", None)]
)
def test_no_class_is_on_both_sides_of_the_halves_or_of_a_fold(
    name: str, write: Callable[[Path], Path] | None, tmp_path: Path
) -> None:
    train, test = halves(name, write and write(tmp_path))
    assert not set(train.class_names) & set(test.class_names)
    assert np.array_equal(np.unique(test.labels_N), np.arange(test.num_classes))
    for protocol, parts in PARTITIONS.items():
        if train.num_classes < 2 * parts:
            with pytest.raises(UserError, match=f"protocol '{protocol}' needs 2 classes in each of its"):
                split(train.labels_N, protocol)
            continue
        for fold in range(parts):
            dealt = split(train.labels_N, protocol, fold)
            assert not set(train.labels_N[dealt.train_N]) & set(train.labels_N[dealt.validation_N])
            assert len(dealt.train_N) + len(dealt.validation_N) == len(train)


def test_broken_files_are_one_clear_line(tmp_path: Path) -> None:
    file = cifar10(tmp_path) / "test_batch.bin"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    with pytest.raises(UserError, match=r"cifar10: .*test_batch\.bin must have a whole number of records of"):
        catalog.load("cifar10", "train", tmp_path)
    file.write_bytes(bytes([10]) + whole[1:])
    with pytest.raises(UserError, match=r"test_batch\.bin has a label above 9: 10; fetch cifar-10-batches-"):
        catalog.load("cifar10", "train", tmp_path)


def test_a_broken_or_bloated_idx_file_is_one_clear_line(tmp_path: Path) -> None:
    for content, message in [
        (b"\x1f\x8b\x08 torn", r"mnist: .*\.gz cannot be read"),
        (packed(b"\0\0\x0d\x01\0\0\0\x0a" + bytes(10)), r"\.gz is not an idx file of bytes in 1 dimensions"),
        (packed(idx(np.zeros(10, np.uint8))[:-1]), r"must have 10 values after its head; got 9; fetch"),
        (packed(idx(np.zeros(10, np.uint8)) + bytes(9)), r"must have 10 values after its head; got 11"),
        (packed(idx(np.zeros(9, np.uint8))), r"a digit for each of 10 pictures; got 9, the largest 0"),
        (packed(idx(np.full(10, 12, np.uint8))), r"each of 10 pictures; got 10, the largest 12"),
        (packed(struct.pack(">BBBBI", 0, 0, 8, 1, 2**32 - 1)), r"must have 4,294,967,295 values after"),
    ]:
        root = tmp_path / str(len(list(tmp_path.iterdir())))
        (mnist(root, packed=True) / "train-labels-idx1-ubyte.gz").write_bytes(content)
        with pytest.raises(UserError, match=message) as caught:
            catalog.load("mnist", "train", root)
        assert "\n" not in str(caught.value)
