from __future__ import annotations

import numpy as np
import pytest

from dmltune.data.unbalanced import unbalanced_split
from dmltune.errors import UserError

LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(30), np.arange(30) * 2))


def test_head_classes_have_many_training_images_and_tail_classes_a_few_and_the_rest_tests() -> None:
    found = unbalanced_split(LABELS, head_each=12, tail_each=3, fewest=21)
    classes = [label for label in range(30) if 2 * label >= 21]
    train, test = found.images.train_N, found.images.validation_N
    assert not set(train) & set(test)
    assert sorted([*train, *test]) == np.flatnonzero(np.isin(LABELS, classes)).tolist()
    assert (train.tolist(), test.tolist()) == (sorted(train), sorted(test))
    each = [int((LABELS[train] == label).sum()) for label in classes]
    assert each == [3 if tail else 12 for tail in found.tail_C]
    assert int(found.tail_C.sum()) == 7  # 945 / 2,445 of 19 classes
    assert len(set(LABELS[test])) == len(classes)


def test_a_seed_is_a_draw_of_classes_and_images() -> None:
    one, same, other = (
        unbalanced_split(LABELS, head_each=12, tail_each=3, fewest=21, seed=seed) for seed in (1, 1, 2)
    )
    assert np.array_equal(one.images.train_N, same.images.train_N)
    assert not np.array_equal(one.tail_C, other.tail_C)


def test_too_few_large_classes_are_one_clear_line() -> None:
    with pytest.raises(
        UserError, match=r"needs 4 classes with 101 images or more; got 0\. Use a larger data"
    ):
        unbalanced_split(LABELS)
