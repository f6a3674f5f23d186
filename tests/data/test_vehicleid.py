from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from data import tiny_layouts

from dmltune.data import catalog
from dmltune.data.catalog import vehicleid
from dmltune.data.verify import verify
from dmltune.errors import UserError


def test_models_are_categories_and_vehicles_without_one_have_minus_1(tmp_path: Path) -> None:
    tiny_layouts.write("vehicleid", tmp_path, 4, 2)
    train, test = (catalog.load("vehicleid", part, tmp_path) for part in ("train", "test"))
    assert train.class_names == ("vehicle 1", "vehicle 2", "vehicle 3", "vehicle 4")
    assert test.class_names == ("vehicle 5", "vehicle 6", "vehicle 7", "vehicle 8")
    assert train.category_names == ("model 10", "model 20")  # those that occur in the part
    assert train.category_N is not None
    assert train.category_N.tolist() == [-1, -1, 1, 1, -1, -1, 0, 0]


def smaller_list(folder: Path, size: int, vehicles: tuple[int, ...]) -> None:
    lists = folder / "train_test_split"
    rows = (lists / "test_list_2400.txt").read_text().splitlines()
    listed = [row for row in rows if int(row.split()[1]) in vehicles]
    (lists / f"test_list_{size}.txt").write_text("\n".join(listed))


def test_each_test_list_can_be_chosen_and_the_largest_is_the_default(tmp_path: Path) -> None:
    folder = tiny_layouts.write("vehicleid", tmp_path, 4, 3)
    for name, size, vehicles in (("small", 800, (5,)), ("medium", 1600, (5, 6))):
        smaller_list(folder, size, vehicles)
        chosen = catalog.load("vehicleid", "test", tmp_path, test_list=name)
        assert chosen.class_names == tuple(f"vehicle {number}" for number in vehicles)
    large = catalog.load("vehicleid", "test", tmp_path)
    assert large.num_classes == 4
    assert {name: set(large.labels_N[part_N]) for name, part_N in large.smaller_lists.items()} == {
        "small": {0},
        "medium": {0, 1},
    }
    with pytest.raises(UserError, match="must be a test list; got 'larg'; did you mean 'large'"):
        catalog.load("vehicleid", "test", tmp_path, test_list="larg")
    with pytest.raises(UserError, match="unknown option 'test_list' of data set 'sop'"):
        catalog.load("sop", "test", tmp_path, test_list="small")


def test_one_image_of_each_vehicle_is_the_gallery_the_same_in_every_list(tmp_path: Path) -> None:
    folder = tiny_layouts.write("vehicleid", tmp_path, 6, 5)
    smaller_list(folder, 800, (8, 9))
    large = catalog.load("vehicleid", "test", tmp_path, test_list="large")
    small = catalog.load("vehicleid", "test", tmp_path, test_list="small")
    galleries = []
    for images in (large, small):
        assert images.query_N is not None
        gallery = images.labels_N[~images.query_N]
        assert sorted(gallery) == list(range(images.num_classes))
        galleries.append(images.query_N)
    assert galleries[0][large.smaller_lists["small"]].tolist() == galleries[1].tolist()
    places = [index % 5 for index in np.flatnonzero(~galleries[0])]
    assert len(set(places)) > 1  # drawn, not the first of each
    again = catalog.load("vehicleid", "test", tmp_path)
    assert again.query_N is not None
    assert again.query_N.tolist() == galleries[0].tolist()
    assert catalog.load("vehicleid", "train", tmp_path).query_N is None


def test_a_list_with_other_images_is_not_marked_as_a_part(tmp_path: Path) -> None:
    folder = tiny_layouts.write("vehicleid", tmp_path, 4, 2)
    (folder / "train_test_split" / "test_list_800.txt").write_text("0000100 1\n0000101 1\n")
    (folder / "train_test_split" / "test_list_1600.txt").unlink()
    assert catalog.load("vehicleid", "test", tmp_path).smaller_lists == {}


def test_another_model_is_another_fingerprint(tmp_path: Path) -> None:
    folder = tiny_layouts.write("vehicleid", tmp_path, 4, 2)
    before = catalog.load("vehicleid", "train", tmp_path)
    models = folder / "attribute" / "model_attr.txt"
    models.write_text(models.read_text().replace("2 20", "2 10", 1))
    after = catalog.load("vehicleid", "train", tmp_path)
    assert after.category_names == ("model 10",)
    assert after.fingerprint != before.fingerprint


def test_verify_looks_at_every_test_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vehicleid, "PUBLISHED", {})
    folder = tiny_layouts.write("vehicleid", tmp_path, 3, 2)

    def faults() -> list[str]:
        *_, last = verify("vehicleid", tmp_path)
        assert last.report is not None
        return [
            f"{fault.kind}: {fault.text} {fault.file.name if fault.file else ''}"
            for fault in last.report.faults
        ]

    assert faults() == []
    lists = folder / "train_test_split"
    (lists / "test_list_800.txt").write_text("0000999 77\n")
    (lists / "test_list_1600.txt").unlink()
    texts = faults()
    assert "missing: listed, but missing 0000999.jpg" in texts
    assert sum("the small test list has images that the large one has not" in text for text in texts) == 1
    assert sum(text.startswith("missing: the medium test list: ") for text in texts) == 1
    assert len(texts) == 3
