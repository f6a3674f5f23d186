from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from data import test_small_sets as small_sets
from data import tiny_layouts
from hypothesis import given, settings
from hypothesis import strategies as st

from dmltune.data import catalog
from dmltune.data.images import ImageSet, Part
from dmltune.data.splits import PARTITIONS, monitored, split
from dmltune.errors import UserError

SEEDS = range(3)
# data sets in which a class has the same name in both halves only if it is the same class
NAMED = ("cub", "cars196", "sop", "inshop", "vehicleid", "faces", "glyphs", "own")

SMALL = {"cifar10": small_sets.cifar10, "cifar100": small_sets.cifar100, "mnist": small_sets.mnist}


@settings(deadline=None)
@given(
    protocol=st.sampled_from(sorted(PARTITIONS)),
    counts=st.lists(st.integers(1, 7), min_size=10, max_size=40),
    seed=st.integers(0, 2**32),
)
def test_every_protocol_validates_each_class_in_exactly_one_fold(
    protocol: str, counts: list[int], seed: int
) -> None:
    labels_N = np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts))
    validated = []
    for fold in range(PARTITIONS[protocol]):
        part = split(labels_N, protocol, fold, seed)
        train, validation = set(labels_N[part.train_N]), set(labels_N[part.validation_N])
        assert not train & validation
        assert sorted([*part.train_N, *part.validation_N]) == list(range(len(labels_N)))
        assert abs(len(validation) - len(counts) / PARTITIONS[protocol]) < 1
        validated += sorted(validation)
    assert sorted(validated) == list(range(len(counts)))


@pytest.fixture(scope="module")
def halves(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[Part, ImageSet]]:
    """Both halves of a data set: of those that are files, tiny copies."""
    read: dict[str, dict[Part, ImageSet]] = {}

    def load(name: str) -> dict[Part, ImageSet]:
        if name not in read:
            root, options = None, {}
            if name in tiny_layouts.NAMES:
                root = tiny_layouts.write(name, tmp_path_factory.mktemp(name), classes=11, per_class=2)
            elif name in SMALL:
                SMALL[name](root := tmp_path_factory.mktemp(name))
            elif name == "own":
                folder = tmp_path_factory.mktemp("own")
                write_classes(folder, 24, 2)
                options = {"path": str(folder)}
            try:
                train, test = (catalog.load(name, part, root, **options) for part in ("train", "test"))
            except UserError as error:
                assert name not in NAMED
                pytest.skip(str(error))  # files that nobody put here
            read[name] = {"train": train, "test": test}
        return read[name]

    return load


def write_classes(folder: Path, classes: int, per_class: int) -> None:
    for number in range(classes):
        for index in range(per_class):
            tiny_layouts.picture(folder / f"kind_{number}" / f"{index}.png", number, index)


@pytest.mark.parametrize("name", catalog.names())
def test_no_class_is_on_both_sides_in_any_data_set_protocol_fold_and_deal(
    name: str, halves: Callable[[str], dict[Part, ImageSet]]
) -> None:
    labels_N = halves(name)["train"].labels_N
    classes = set(labels_N)
    for protocol, parts in PARTITIONS.items():
        if len(classes) < 2 * parts:
            with pytest.raises(UserError, match=rf"{2 * parts} in all; got {len(classes)}\. "):
                split(labels_N, protocol)
            continue
        for fold in range(parts):
            for seed in SEEDS:
                part = split(labels_N, protocol, fold, seed)
                trained, validated = set(labels_N[part.train_N]), set(labels_N[part.validation_N])
                assert not trained & validated
                assert trained | validated == classes
                assert len(part.train_N) + len(part.validation_N) == len(labels_N)


@pytest.mark.parametrize("name", catalog.names())
def test_no_class_is_in_both_halves_and_monitoring_keeps_them_apart(
    name: str, halves: Callable[[str], dict[Part, ImageSet]]
) -> None:
    train, test = halves(name)["train"], halves(name)["test"]
    if name in NAMED:
        assert not set(train.class_names) & set(test.class_names)
    both = monitored(train, test)
    part = both.split()
    assert list(part.train_N) == list(range(len(train)))
    assert list(part.validation_N) == list(range(len(train), len(train) + len(test)))
    assert not set(both.labels_N[part.train_N]) & set(both.labels_N[part.validation_N])
    assert len(set(both.labels_N)) == both.num_classes == train.num_classes + test.num_classes


def test_monitoring_reads_each_image_from_its_own_half_in_the_order_asked(
    make_set: Callable[..., ImageSet],
) -> None:
    train, test = make_set([3, 2]), make_set([1, 2], side=(20, 20))
    both = monitored(train, test)
    asked = [6, 0, 5, 4, 7]
    expected = [test.read([1])[0], *train.read([0]), *test.read([0]), *train.read([4]), *test.read([2])]
    for image_HWC, wanted_HWC in zip(both.read(asked), expected, strict=True):
        assert np.array_equal(image_HWC, wanted_HWC)
    again = both.with_reader(both.reader)  # what a cache makes of it
    assert np.array_equal(again.split().validation_N, [5, 6, 7])


def test_monitoring_keeps_categories_by_name_and_another_half_is_other_data(
    make_set: Callable[..., ImageSet],
) -> None:
    train = replace(make_set([2, 2]), category_N=np.array([0, 0, 1, -1]), category_names=("cars", "vans"))
    test = replace(
        make_set([2, 1]),
        category_N=np.array([0, 1, -1]),
        category_names=("vans", "bikes"),
        fingerprint="1" * 16,
    )
    both = monitored(train, test)
    assert both.category_names == ("cars", "vans", "bikes")
    assert both.category_N is not None
    assert list(both.category_N) == [0, 0, 1, -1, 1, 2, -1]
    assert len({train.fingerprint, test.fingerprint, both.fingerprint}) == 3
    assert monitored(train, replace(test, category_N=None)).category_N is None


def test_a_split_is_a_function_of_its_arguments_and_the_seed_deals_anew() -> None:
    labels_N = np.repeat(np.arange(30), 3)
    first, again, other = (split(labels_N, "ablation", 1, seed) for seed in (5, 5, 6))
    assert np.array_equal(first.validation_N, again.validation_N)
    assert not np.array_equal(first.validation_N, other.validation_N)


def test_a_wrong_protocol_fold_or_too_few_classes_is_one_clear_line() -> None:
    for protocol, fold, classes, message in [
        (
            "conventional",
            0,
            30,
            r"validates on the test classes, and a training half has none; use ablation, fair",
        ),
        ("ablatoin", 0, 30, "no protocol 'ablatoin'; did you mean 'ablation'?"),
        ("x", 0, 30, "no protocol 'x'; use ablation, fair, tuning, halves"),
        ("fair", 4, 30, r"has the folds 0 to 3; got 4\."),
        ("fair", -1, 30, r"has the folds 0 to 3; got -1\."),
        (
            "ablation",
            0,
            5,
            r"2 classes in each of its 3 partitions, 6 in all; got 5\. Use objective.protocol=halves",
        ),
        ("tuning", 0, 9, r"10 in all; got 9\. Use objective.protocol=fair, which has 4\."),
        ("halves", 0, 3, r"4 in all; got 3\. Add classes: 4 to train on are the fewest"),
    ]:
        with pytest.raises(UserError, match=message.replace("?", r"\?")) as caught:
            split(np.arange(classes), protocol, fold)
        assert "\n" not in str(caught.value)


def test_monitoring_keeps_separate_queries(make_set: Callable[..., ImageSet]) -> None:
    train, test = make_set([3, 2]), make_set([2, 2])
    assert monitored(train, test).query_N is None
    both = monitored(train, replace(test, query_N=np.array([True, False, True, False])))
    assert both.query_N is not None
    assert both.query_N[both.split().validation_N].tolist() == [True, False, True, False]


def test_within_validates_on_a_fifth_of_the_images_of_every_class() -> None:
    labels_N = np.repeat(np.arange(4), [10, 11, 5, 20])[::-1].copy()
    folds = [split(labels_N, "within", fold, seed=3) for fold in range(5)]
    for part in folds:
        assert sorted([*part.train_N, *part.validation_N]) == list(range(46))
        counts_C = np.bincount(labels_N[part.validation_N])
        assert set(counts_C - np.array([2, 2, 1, 4])) <= {0, 1}
    assert sorted(np.concatenate([part.validation_N for part in folds])) == list(range(46))
