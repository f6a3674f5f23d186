from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmltune.data.images import ImageSet, Part
from dmltune.data.splits import PARTITIONS, split
from dmltune.errors import UserError


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


@pytest.mark.parametrize("protocol", sorted(PARTITIONS))
def test_the_glyphs_are_class_disjoint_in_every_protocol(glyphs: dict[Part, ImageSet], protocol: str) -> None:
    labels_N = glyphs["train"].labels_N
    for fold in range(PARTITIONS[protocol]):
        part = split(labels_N, protocol, fold)
        assert not set(labels_N[part.train_N]) & set(labels_N[part.validation_N])
        assert len(set(labels_N[part.train_N])) + len(set(labels_N[part.validation_N])) == len(set(labels_N))


def test_a_split_is_a_function_of_its_arguments_and_the_seed_deals_anew() -> None:
    labels_N = np.repeat(np.arange(30), 3)
    first, again, other = (split(labels_N, "ablation", 1, seed) for seed in (5, 5, 6))
    assert np.array_equal(first.validation_N, again.validation_N)
    assert not np.array_equal(first.validation_N, other.validation_N)


@pytest.mark.parametrize(
    ("protocol", "fold", "classes", "message"),
    [
        ("conventional", 0, 30, r"monitors the test classes .* use ablation, fair, tuning"),
        ("ablatoin", 0, 30, "no protocol 'ablatoin'; did you mean 'ablation'?"),
        ("x", 0, 30, "no protocol 'x'; use ablation, fair, tuning"),
        ("fair", 4, 30, r"has the folds 0 to 3; got 4\."),
        ("fair", -1, 30, r"has the folds 0 to 3; got -1\."),
        ("ablation", 0, 5, r"2 classes in each of its 3 partitions, 6 in all; got 5\."),
    ],
)
def test_a_wrong_protocol_fold_or_too_few_classes_is_one_clear_line(
    protocol: str, fold: int, classes: int, message: str
) -> None:
    with pytest.raises(UserError, match=message.replace("?", r"\?")) as caught:
        split(np.arange(classes), protocol, fold)
    assert "\n" not in str(caught.value)
