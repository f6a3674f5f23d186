from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from data import tiny_layouts

from dmltune.data import catalog
from dmltune.errors import UserError


def test_the_first_98_classes_train_and_the_others_test(tmp_path: Path) -> None:
    tiny_layouts.write("cars196", tmp_path, 3, 2)
    train, test = (catalog.load("cars196", part, tmp_path) for part in ("train", "test"))
    assert train.class_names == ("Car 1", "Car 2", "Car 3")
    assert test.class_names == ("Car 99", "Car 100", "Car 101")
    assert train.labels_N.tolist() == test.labels_N.tolist() == [0, 0, 1, 1, 2, 2]


def test_the_release_with_the_devkit_has_the_same_split_by_class_not_that_of_its_folders(
    tmp_path: Path,
) -> None:
    tiny_layouts.write("cars196", tmp_path / "whole", 3, 4)
    tiny_layouts.cars196_devkit(tmp_path / "halves", 3, 4)
    for part in ("train", "test"):
        whole, halves = (catalog.load("cars196", part, tmp_path / name) for name in ("whole", "halves"))
        assert halves.class_names == whole.class_names
        assert len(halves) == len(whole)
        pictures = [
            sorted((label, picture.tobytes()) for label, picture in zip(one.labels_N, all_, strict=True))
            for one in (whole, halves)
            for all_ in [one.read(range(len(one)))]
        ]
        assert pictures[0] == pictures[1]


def test_other_labels_are_another_fingerprint(tmp_path: Path) -> None:
    """The paths do not tell the class: it is in the annotations only."""
    from scipy.io import loadmat, savemat

    folder = tiny_layouts.write("cars196", tmp_path, 3, 2)
    before = catalog.load("cars196", "train", tmp_path)
    content = loadmat(folder / "cars_annos.mat")
    numbers = content["annotations"]["class"]
    numbers[0, 0], numbers[0, 2] = numbers[0, 2].copy(), numbers[0, 0].copy()
    savemat(folder / "cars_annos.mat", {key: content[key] for key in ("annotations", "class_names")})
    after = catalog.load("cars196", "train", tmp_path)
    assert not np.array_equal(after.labels_N, before.labels_N)
    assert after.fingerprint != before.fingerprint
    assert after.key == before.key  # the files are the same: no need to decode them again


@pytest.mark.parametrize("content", [b"", b"not matlab", b"MATLAB 7.3 MAT-file" + b"\0" * 105 + b"\0\2IM"])
def test_annotations_that_cannot_be_read_are_one_clear_line(content: bytes, tmp_path: Path) -> None:
    folder = tiny_layouts.write("cars196", tmp_path, 2, 2)
    (folder / "cars_annos.mat").write_bytes(content)
    with pytest.raises(UserError, match=r"cars196: the annotations in .* cannot be read .*; fetch") as caught:
        catalog.load("cars196", "train", tmp_path)
    assert "\n" not in str(caught.value)
