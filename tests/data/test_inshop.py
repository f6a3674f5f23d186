from __future__ import annotations

from pathlib import Path

import pytest
from data import tiny_layouts

from dmltune.data import catalog
from dmltune.errors import UserError

LIST = "list_eval_partition.txt"


def test_the_test_half_has_queries_and_a_gallery_of_the_same_clothes(tmp_path: Path) -> None:
    tiny_layouts.write("inshop", tmp_path, 4, 3)
    train, test = (catalog.load("inshop", part, tmp_path) for part in ("train", "test"))
    assert train.query_N is None
    assert test.query_N is not None
    assert test.query_N.tolist() == [True, False, False] * 4
    assert set(test.labels_N[test.query_N]) == set(test.labels_N[~test.query_N]) == set(range(4))
    assert train.class_names == tuple(f"id_{number:08d}" for number in range(1, 5))
    assert test.class_names == tuple(f"id_{number:08d}" for number in range(5, 9))


def test_denim_of_men_and_of_women_are_two_of_the_categories(tmp_path: Path) -> None:
    tiny_layouts.write("inshop", tmp_path, 3, 1)
    train = catalog.load("inshop", "train", tmp_path)
    assert train.category_names == ("MEN/Denim", "WOMEN/Denim", "WOMEN/Dresses")
    assert train.category_N is not None
    assert train.category_N.tolist() == [1, 2, 0]


@pytest.mark.parametrize("place", ["Anno", "."])
def test_the_list_and_the_images_may_lie_elsewhere(place: str, tmp_path: Path) -> None:
    folder = tiny_layouts.write("inshop", tmp_path, 2, 2)
    before = catalog.load("inshop", "test", tmp_path)
    (folder / place).mkdir(exist_ok=True)
    (folder / "Eval" / LIST).rename(folder / place / LIST)
    (folder / "Img" / "img").rename(folder / "img")
    renamed = folder.rename(tmp_path / "inshop")
    for root in (tmp_path, renamed):
        assert catalog.load("inshop", "test", root).fingerprint == before.fingerprint


def test_another_query_is_another_fingerprint(tmp_path: Path) -> None:
    folder = tiny_layouts.write("inshop", tmp_path, 2, 2)
    before = catalog.load("inshop", "test", tmp_path)
    lines = (folder / "Eval" / LIST).read_text()
    (folder / "Eval" / LIST).write_text(lines[::-1].replace("yrellag", "yreuq", 1)[::-1])
    assert catalog.load("inshop", "test", tmp_path).fingerprint != before.fingerprint


def test_a_list_cut_short_is_one_clear_line(tmp_path: Path) -> None:
    folder = tiny_layouts.write("inshop", tmp_path, 2, 2)
    lines = (folder / "Eval" / LIST).read_text().splitlines()
    (folder / "Eval" / LIST).write_text("\n".join(lines[:-1]))
    with pytest.raises(UserError, match=r"partition\.txt claims '8' images and lists 7; fetch In-shop"):
        catalog.load("inshop", "train", tmp_path)


def test_a_half_without_images_is_one_clear_line(tmp_path: Path) -> None:
    folder = tiny_layouts.write("inshop", tmp_path, 2, 2)
    text = (folder / "Eval" / LIST).read_text()
    (folder / "Eval" / LIST).write_text(text.replace("query", "train").replace("gallery", "train"))
    with pytest.raises(UserError, match=r"lists no test image; fetch In-shop"):
        catalog.load("inshop", "test", tmp_path)
