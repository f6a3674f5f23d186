from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dmltune.data.contact_sheet import EMPTY, GAP, LINE, TILE, draw, spread
from dmltune.data.images import ImageSet, Ints, Pixels
from dmltune.errors import UserError


def coloured(per_class: list[int], shape: tuple[int, int] = (300, 200)) -> ImageSet:
    """Every image is a plain (class, place in the class, 77)."""
    labels_N = np.repeat(np.arange(len(per_class)), per_class)
    place_N = np.concatenate([np.arange(count) for count in per_class])

    def read(indices: Ints, side: int | None) -> list[Pixels]:
        colours = [(labels_N[index], place_N[index], 77) for index in indices]
        return [np.full((*shape, 3), colour, np.uint8) for colour in colours]

    names = tuple(f"a class with number {label}" for label in range(len(per_class)))
    return ImageSet("memory", "train", labels_N, names, "0" * 16, read)


def middle(sheet: Image.Image, row: int, column: int) -> tuple[int, ...]:
    corner = GAP + column * (TILE + GAP), GAP + row * (LINE + TILE + GAP) + LINE
    pixel = sheet.getpixel((corner[0] + TILE // 2, corner[1] + TILE // 2))
    assert isinstance(pixel, tuple)
    return pixel


def test_a_sheet_has_a_row_for_a_class_and_its_images_side_by_side(tmp_path: Path) -> None:
    names = draw(coloured([9, 2, 9, 9, 9, 9]), tmp_path / "sheet.png", classes=3, per_class=4)
    assert names == ["a class with number 0", "a class with number 2", "a class with number 4"]
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.size == (GAP + 4 * (TILE + GAP), GAP + 3 * (LINE + TILE + GAP))
        for row, label in enumerate((0, 2, 4)):
            places = [middle(sheet, row, column) for column in range(4)]
            assert places == [(label, place, 77) for place in (0, 2, 4, 6)]
        left = sheet.getpixel((GAP + 1, GAP + LINE + TILE // 2))
        assert left == EMPTY  # an upright image keeps its shape
        title = np.asarray(sheet)[GAP : GAP + LINE]
        assert title.min() < 100  # the name is there


def test_classes_with_few_images_leave_room_and_fewer_classes_make_a_smaller_sheet(tmp_path: Path) -> None:
    draw(coloured([1, 3]), tmp_path / "sheet.png", classes=10, per_class=8)
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.size == (GAP + 3 * (TILE + GAP), GAP + 2 * (LINE + TILE + GAP))
        assert middle(sheet, 0, 1) == (255, 255, 255)
        assert middle(sheet, 1, 2) == (1, 2, 77)


def test_small_pictures_are_enlarged_with_square_pixels(
    make_set: Callable[..., ImageSet], tmp_path: Path
) -> None:
    images = make_set([1], side=(8, 8), channels=1)
    draw(images, tmp_path / "sheet.png")
    with Image.open(tmp_path / "sheet.png") as sheet:
        tile = np.asarray(sheet)[GAP + LINE : GAP + LINE + TILE, GAP : GAP + TILE, 0]
    assert np.array_equal(tile[::14, ::14], images.read([0])[0][:, :, 0])
    assert np.array_equal(tile, np.kron(tile[::14, ::14], np.ones((14, 14), np.uint8)))


def test_choices_are_spread_evenly_and_never_repeated() -> None:
    assert spread(3, 8).tolist() == [0, 1, 2]
    assert spread(100, 4).tolist() == [0, 25, 50, 75]
    for total in range(1, 30):
        for count in range(1, 30):
            chosen = spread(total, count)
            assert len(set(chosen.tolist())) == min(total, count)
            assert chosen.max() < total


def test_another_kind_of_file_or_no_folder_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a contact sheet is a PNG file; got .*\.jpg. Name it .*sheet\.png"):
        draw(coloured([2]), tmp_path / "sheet.jpg")
    with pytest.raises(UserError, match=r"none/sheet\.png cannot be written \(No such file"):
        draw(coloured([2]), tmp_path / "none" / "sheet.png")
