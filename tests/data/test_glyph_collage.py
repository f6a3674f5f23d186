"""Collages of characters and of CIFAR-100 (binary): what is in them, and what is never shared."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from data import tiny_layouts

from dmltune.data import catalog
from dmltune.data.catalog import cifar_collage, glyph_collage
from dmltune.data.catalog._collage import CollageSet, partitions
from dmltune.data.images import ImageSet, Ints, Part
from dmltune.data.splits import PARTITIONS, split
from dmltune.errors import UserError
from dmltune.experiment import load_experiment
from dmltune.train.build import training_images, validation_split

PARTS = get_args(Part)


@pytest.fixture(scope="module")
def collages() -> dict[Part, CollageSet]:
    return {"train": glyph_collage.load("train"), "test": glyph_collage.load("test")}


def shared(images: ImageSet, indices: Ints | slice) -> set[int]:
    assert isinstance(images, CollageSet)
    assert images.shared_N3 is not None
    return set(images.shared_N3[indices].ravel().tolist())


def test_a_collage_is_one_picture_of_its_class_and_three_of_shared_classes(
    collages: dict[Part, CollageSet], glyphs: dict[Part, ImageSet]
) -> None:
    images, tiles = collages["train"], glyphs["train"]
    owner = {
        picture.tobytes(): tiles.class_names[label]
        for picture, label in zip(tiles.read(range(len(tiles))), tiles.labels_N, strict=True)
    }
    assert images.shared_N3 is not None
    places = Counter()
    for index in range(0, len(images), 37):
        (picture,) = images.read([index])
        assert picture.shape == (64, 64, 1)
        names = [
            owner[picture[row : row + 32, column : column + 32].tobytes()]
            for row in (0, 32)
            for column in (0, 32)
        ]
        own = images.class_names[images.labels_N[index]]
        assert names.count(own) == 1
        places[names.index(own)] += 1
        others = Counter(tiles.class_names[label] for label in images.shared_N3[index])
        assert Counter(names) == others + Counter([own])
    assert min(places.values()) > sum(places.values()) / 8
    assert len(places) == 4


def test_shared_classes_are_characters_of_the_four_scripts_and_no_foreground_class_is(
    collages: dict[Part, CollageSet], glyphs: dict[Part, ImageSet]
) -> None:
    for part, images in collages.items():
        names = {glyphs[part].class_names[label] for label in shared(images, slice(None))}
        assert {name.split()[1] for name in names} == set(glyph_collage.SHARED)
        assert not names & set(images.class_names)


def test_training_and_test_have_no_class_in_common_on_either_side(
    collages: dict[Part, CollageSet], glyphs: dict[Part, ImageSet]
) -> None:
    everything = {
        part: {glyphs[part].class_names[label] for label in shared(images, slice(None))}
        | set(images.class_names)
        for part, images in collages.items()
    }
    assert not everything["train"] & everything["test"]


@pytest.mark.parametrize("count", [None, 150, 60, 6])
@pytest.mark.parametrize("fold", range(PARTITIONS["ablation"]))
def test_what_is_shared_in_training_is_never_seen_in_validation(
    collages: dict[Part, CollageSet], fold: int, count: int | None
) -> None:
    """On the sides that a training takes. Also of the first classes only: those are dealt anew."""
    images = collages["train"].first_classes(count)
    sides = validation_split(load_experiment("collage", [f"fold={fold}"]), images)
    training, validation = (shared(images, side) for side in (sides.train_N, sides.validation_N))
    assert training
    assert validation
    assert not training & validation


def test_the_first_classes_keep_their_names_and_pictures(collages: dict[Part, CollageSet]) -> None:
    images = collages["train"]
    few = images.first_classes(9)
    assert few.class_names == images.class_names[:9]
    assert few.num_classes == 9
    assert len(few) == (images.labels_N < 9).sum()
    assert few.fingerprint != images.fingerprint
    assert images.first_classes(None) is images


def test_classes_of_a_partition_share_their_backgrounds(collages: dict[Part, CollageSet]) -> None:
    """Nothing behind a class says which of its partition it is: many classes, few shared ones."""
    images = collages["train"]
    partition_C = partitions(images.num_classes, 3)
    for partition in range(3):
        mine = np.isin(images.labels_N, np.flatnonzero(partition_C == partition))
        assert len(shared(images, mine)) == 4 * glyph_collage.SHARED_EACH
        assert (partition_C == partition).sum() == images.num_classes / 3


def test_the_same_collages_every_time(collages: dict[Part, CollageSet]) -> None:
    again = catalog.load("glyph_collage", "train")
    assert again.fingerprint == collages["train"].fingerprint
    chosen = [5, 0, 777]
    for one, other in zip(again.read(chosen), collages["train"].read(chosen), strict=True):
        assert np.array_equal(one, other)


def test_cifar_has_two_sub_classes_for_training_one_for_validation_and_two_for_test(tmp_path: Path) -> None:
    folder = tiny_layouts.cifar100(tmp_path / "cifar-100-binary")
    found = {}
    for part, each in (("train", 3), ("test", 2)):
        images = catalog.load("cifar_collage", part, tmp_path)  # type: ignore[arg-type]
        assert images.fingerprint == cifar_collage.load(part, folder).fingerprint  # type: ignore[arg-type]
        assert images.num_classes == 16 * each
        values = [int(name.removeprefix("class ")) for name in images.class_names]
        assert {value // 5 for value in values} == set(range(20)) - set(cifar_collage.SHARED)
        behind: set[int] = set()
        for label, picture in zip(images.labels_N, images.read(range(len(images))), strict=True):
            assert picture.shape == (64, 64, 3)
            corners = sorted(int(picture[row, column, 0]) for row in (0, 63) for column in (0, 63))
            corners.remove(values[label])
            assert {value // 5 for value in corners} <= set(cifar_collage.SHARED)
            behind |= set(corners)
        found[part] = behind | set(values)
    assert not found["train"] & found["test"]


def test_cifar_in_training_shares_two_sub_classes_of_each_and_one_in_validation(tmp_path: Path) -> None:
    tiny_layouts.cifar100(tmp_path / "cifar-100-binary", each=20)
    images = cifar_collage.load("train", tmp_path)
    for fold in range(3):
        sides = split(images.labels_N, "ablation", fold)
        training, validation = shared(images, sides.train_N), shared(images, sides.validation_N)
        assert (len(training), len(validation)) == (8, 4)
        assert not training & validation


def test_distilled_sets_have_the_classes_and_partitions_of_the_collages_as_single_pictures(
    tmp_path: Path, collages: dict[Part, CollageSet], glyphs: dict[Part, ImageSet]
) -> None:
    tiny_layouts.cifar100(tmp_path / "cifar-100-binary", each=3)
    for part in PARTS:
        for name, whole, side in (
            ("glyph_distilled", collages[part], 32),
            ("cifar_distilled", cifar_collage.load(part, tmp_path), 32),
        ):
            alone = catalog.load(name, part, tmp_path)
            assert alone.name == name
            assert alone.class_names == whole.class_names
            assert alone.margin == 1.0
            assert {picture.shape[:2] for picture in alone.read(range(len(alone)))} == {(side, side)}
            for fold in range(3):
                mine, theirs = (split(images.labels_N, "ablation", fold) for images in (alone, whole))
                for ours, other in ((mine.train_N, theirs.train_N), (mine.validation_N, theirs.validation_N)):
                    assert set(alone.labels_N[ours]) == set(whole.labels_N[other])
        tiles, alone = glyphs[part], catalog.load("glyph_distilled", part)
        own = {name: tiles.labels_N == label for label, name in enumerate(tiles.class_names)}
        for label, name in enumerate(alone.class_names):
            pictures = [picture.tobytes() for picture in alone.read(np.flatnonzero(alone.labels_N == label))]
            assert pictures == [picture.tobytes() for picture in tiles.read(np.flatnonzero(own[name]))]
        few = catalog.load("glyph_distilled", part).first_classes(5)
        assert few.class_names == collages[part].first_classes(5).class_names


def test_cifar_singles_pretrain_on_three_sub_classes_of_all_super_classes_and_no_test_class(
    tmp_path: Path,
) -> None:
    tiny_layouts.cifar100(tmp_path / "cifar-100-binary", each=4)
    train, test = (catalog.load("cifar_singles", part, tmp_path) for part in PARTS)
    for images, each, first in ((train, 3, 0), (test, 2, 3)):
        values = [int(name.removeprefix("class ")) for name in images.class_names]
        assert values == [5 * parent + first + place for parent in range(20) for place in range(each)]
        assert images.category_N is not None
        pictures = images.read(range(len(images)))
        for label, parent, picture in zip(images.labels_N, images.category_N, pictures, strict=True):
            assert (picture == values[label]).all()
            assert parent == values[label] // 5
        assert np.bincount(images.labels_N).tolist() == [4] * 20 * each
    assert not set(train.class_names) & set(cifar_collage.load("test", tmp_path).class_names)


def test_absent_and_damaged_files_are_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DMLTUNE_DATA", raising=False)
    for root in (None, tmp_path):
        with pytest.raises(UserError, match="cifar-100-binary") as refused:
            catalog.load("cifar_collage", "train", root)
        assert "\n" not in str(refused.value)
    folder = tiny_layouts.cifar100(tmp_path / "cifar-100-binary")
    content = (folder / "test.bin").read_bytes()
    (folder / "test.bin").write_bytes(content[:-1])
    with pytest.raises(UserError, match="whole number of records"):
        catalog.load("cifar_collage", "train", tmp_path)
    (folder / "test.bin").write_bytes(b"\xff" + content[1:])
    with pytest.raises(UserError, match="label above"):
        catalog.load("cifar_collage", "train", tmp_path)


def test_a_protocol_whose_backgrounds_would_not_be_new_is_refused() -> None:
    experiment = load_experiment("collage", ["objective.protocol=fair", "data.classes=40"])
    with pytest.raises(UserError, match=r"made for objective\.protocol ablation; got fair\. Use ablation\."):
        validation_split(experiment, training_images(experiment, None))
