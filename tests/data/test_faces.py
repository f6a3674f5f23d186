from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from data import tiny_layouts

from dmltune.data import catalog
from dmltune.errors import UserError


def test_every_folder_is_a_person_and_evaluation_looks_at_the_whole_frame(tmp_path: Path) -> None:
    tiny_layouts.write("faces", tmp_path, 3, 2)
    train, test = (catalog.load("faces", part, tmp_path) for part in ("train", "test"))
    assert train.class_names == ("person_001", "person_002", "person_003")
    assert test.class_names == ("person_004", "person_005", "person_006")
    assert train.labels_N.tolist() == [0, 0, 1, 1, 2, 2]
    assert train.margin == 1.0


def test_without_a_folder_train_all_folders_but_test_train(tmp_path: Path) -> None:
    folder = tiny_layouts.write("faces", tmp_path, 3, 2)
    inside = catalog.load("faces", "train", tmp_path)
    for person in list((folder / "train").iterdir()):
        person.rename(folder / person.name)
    (folder / "train").rmdir()
    beside = catalog.load("faces", "train", tmp_path)
    assert beside.fingerprint == inside.fingerprint
    assert catalog.load("faces", "test", tmp_path).class_names[0] == "person_004"


def test_what_is_no_picture_and_folders_without_one_are_left_out(tmp_path: Path) -> None:
    folder = tiny_layouts.write("faces", tmp_path, 3, 2)
    before = catalog.load("faces", "train", tmp_path)
    (folder / "train" / "person_001" / "notes.txt").write_text("by the window")
    (folder / "train" / "person_000").mkdir()
    shutil.copytree(folder / "train" / "person_002", folder / "train" / ".trash")
    after = catalog.load("faces", "train", tmp_path)
    assert after.fingerprint == before.fingerprint
    assert np.array_equal(after.labels_N, before.labels_N)


def test_a_missing_test_half_says_where_it_belongs(tmp_path: Path) -> None:
    folder = tiny_layouts.write("faces", tmp_path, 2, 2)
    shutil.rmtree(folder / "test")
    with pytest.raises(UserError, match=r"no people to test on; put a folder for each into .*faces/test\."):
        catalog.load("faces", "test", tmp_path)
