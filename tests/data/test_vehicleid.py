from __future__ import annotations

from pathlib import Path

import pytest
from data import tiny_layouts

from dmltune.data import catalog
from dmltune.errors import UserError


def test_models_are_categories_and_vehicles_without_one_have_minus_1(tmp_path: Path) -> None:
    tiny_layouts.write("vehicleid", tmp_path, 4, 2)
    train, test = (catalog.load("vehicleid", part, tmp_path) for part in ("train", "test"))
    assert train.class_names == ("vehicle 1", "vehicle 2", "vehicle 3", "vehicle 4")
    assert test.class_names == ("vehicle 5", "vehicle 6", "vehicle 7", "vehicle 8")
    assert train.category_names == ("model 10", "model 20")  # those that occur in the part
    assert train.category_N is not None
    assert train.category_N.tolist() == [-1, -1, 1, 1, -1, -1, 0, 0]


def test_each_test_list_can_be_chosen_and_the_largest_is_the_default(tmp_path: Path) -> None:
    folder = tiny_layouts.write("vehicleid", tmp_path, 4, 2)
    lists = folder / "train_test_split"
    for size, vehicles in ((800, (5,)), (1600, (5, 6))):
        rows = (lists / "test_list_2400.txt").read_text().splitlines()
        kept = [row for row in rows if int(row.split()[1]) in vehicles]
        (lists / f"test_list_{size}.txt").write_text("\n".join(kept))
        chosen = catalog.load("vehicleid", "test", tmp_path, vehicles=size)
        assert chosen.class_names == tuple(f"vehicle {number}" for number in vehicles)
    assert catalog.load("vehicleid", "test", tmp_path).num_classes == 4
    with pytest.raises(UserError, match="vehicles must be 800, 1600 or 2400; got 3200"):
        catalog.load("vehicleid", "test", tmp_path, vehicles=3200)


def test_another_model_is_another_fingerprint(tmp_path: Path) -> None:
    folder = tiny_layouts.write("vehicleid", tmp_path, 4, 2)
    before = catalog.load("vehicleid", "train", tmp_path)
    models = folder / "attribute" / "model_attr.txt"
    models.write_text(models.read_text().replace("2 20", "2 10", 1))
    after = catalog.load("vehicleid", "train", tmp_path)
    assert after.category_names == ("model 10",)
    assert after.fingerprint != before.fingerprint
