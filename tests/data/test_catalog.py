from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from dmltune.data import catalog
from dmltune.data.images import ImageSet, Part
from dmltune.errors import UserError


def test_every_file_of_the_catalog_is_a_data_set() -> None:
    folder = Path(catalog.__file__).parent
    assert catalog.names() == tuple(sorted(file.stem for file in folder.glob("[!_]*.py")))
    assert {"cub", "glyphs"} <= set(catalog.names())


@pytest.fixture(params=catalog.names())
def parts(request: pytest.FixtureRequest) -> dict[Part, ImageSet]:
    """Both halves of each data set that can be had on this machine."""
    root = None if request.param == "glyphs" else request.getfixturevalue("data_root")
    return {part: catalog.load(request.param, part, root) for part in get_args(Part)}


def test_the_parts_of_every_data_set_have_no_class_in_common(parts: dict[Part, ImageSet]) -> None:
    assert not set(parts["train"].class_names) & set(parts["test"].class_names)
    assert parts["train"].fingerprint != parts["test"].fingerprint


def test_every_data_set_keeps_the_promises_of_an_image_set(parts: dict[Part, ImageSet]) -> None:
    for part, images in parts.items():
        assert images.part == part
        assert images.labels_N.dtype == np.int64
        assert np.array_equal(np.unique(images.labels_N), np.arange(images.num_classes))
        assert len(set(images.class_names)) == images.num_classes
        assert len(images.fingerprint) == 16
        assert int(images.fingerprint, 16) >= 0
        if images.category_N is not None:
            assert np.array_equal(np.unique(images.category_N), np.arange(len(images.category_names)))
        order = [len(images) - 1, 0, 3]
        for one, index in zip(images.read(order), order, strict=True):
            assert one.dtype == np.uint8
            assert one.ndim == 3
            assert np.array_equal(one, images.read([index])[0])
        assert all(min(one.shape[:2]) <= 20 for one in images.read(order, side=20))


@pytest.mark.parametrize(
    ("name", "part", "options", "message"),
    [
        ("glyhps", "train", {}, r"no data set 'glyhps'; did you mean 'glyphs'\?"),
        ("imagenet", "train", {}, r"no data set 'imagenet'; there are cub, glyphs\."),
        ("glyphs", "validation", {}, "has the parts 'train' and 'test'; got 'validation'"),
        ("glyphs", "train", {"sise": 3}, "unknown option 'sise' of data set 'glyphs'"),
    ],
)
def test_what_is_not_in_the_catalog_is_one_clear_line(
    name: str, part: Part, options: dict[str, int], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        catalog.load(name, part, None, **options)


def test_naming_the_data_sets_imports_neither_torch_nor_fonts() -> None:
    program = "import sys; from dmltune.data import catalog; catalog.names(); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "False\n"
