from __future__ import annotations

from pathlib import Path

import pytest
from data import tiny_layouts

from dmltune.data import catalog
from dmltune.errors import UserError


def test_products_are_classes_and_super_classes_are_categories(tmp_path: Path) -> None:
    tiny_layouts.write("sop", tmp_path, 3, 2)
    train, test = (catalog.load("sop", part, tmp_path) for part in ("train", "test"))
    assert train.class_names == ("sofa 1", "bicycle 2", "sofa 3")
    assert test.class_names == ("sofa 11319", "bicycle 11320", "sofa 11321")
    assert train.category_names == ("bicycle", "sofa")  # in the order of their numbers, 1 and 9
    assert train.category_N is not None
    assert train.category_N.tolist() == [1, 1, 0, 0, 1, 1]
    assert train.query_N is None


def test_training_does_not_read_the_list_of_the_test_products(tmp_path: Path) -> None:
    folder = tiny_layouts.write("sop", tmp_path, 3, 2)
    (folder / "Ebay_test.txt").write_text("")
    assert len(catalog.load("sop", "train", tmp_path)) == 6
    with pytest.raises(UserError, match=r"sop: .*Ebay_test\.txt lists no image; fetch Stanford_Online"):
        catalog.load("sop", "test", tmp_path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("7 4 1", r"Ebay_train\.txt, line 8: 4 columns expected, got 3; fetch"),
        ("7 four 1 sofa_final/x.JPG", r"Ebay_train\.txt has text in place of a number"),
        ("7 4 1 sofa_final/x.JPG", r"sofa_final/x\.JPG is listed in .*Ebay_train\.txt but missing"),
    ],
)
def test_a_damaged_list_is_one_clear_line(line: str, message: str, tmp_path: Path) -> None:
    folder = tiny_layouts.write("sop", tmp_path, 3, 2)
    with (folder / "Ebay_train.txt").open("a") as stream:
        stream.write(line + "\n")
    with pytest.raises(UserError, match=message) as caught:
        catalog.load("sop", "train", tmp_path)
    assert "\n" not in str(caught.value)
