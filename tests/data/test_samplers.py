from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmltune.data.samplers import MPerClass, RandomImages, sampler
from dmltune.errors import UserError

seeds = st.integers(0, 2**32)


@settings(deadline=None)
@given(classes=st.integers(1, 40), k=st.integers(1, 12), m=st.integers(1, 5), seed=seeds)
def test_a_batch_has_k_different_classes_with_m_different_images_each(
    classes: int, k: int, m: int, seed: int
) -> None:
    if k > classes:
        return
    labels_N = np.random.default_rng(1).permutation(np.repeat(np.arange(classes), 6))
    batches = MPerClass(labels_N, k * m, m, seed)
    for step in range(2 * math.ceil(classes / k) + 1):
        chosen_B = batches.batch(step)
        assert len(set(chosen_B)) == k * m
        assert sorted(Counter(labels_N[chosen_B].tolist()).values()) == [m] * k


@settings(deadline=None)
@given(classes=st.integers(2, 40), k=st.integers(1, 12), seed=seeds)
def test_every_epoch_shows_every_class_exactly_once(classes: int, k: int, seed: int) -> None:
    if classes < 2 * k:
        return
    labels_N = np.repeat(np.arange(classes), 2)
    batches = MPerClass(labels_N, 2 * k, 2, seed)
    epochs = 4
    shown = np.concatenate([labels_N[batches.batch(step)][::2] for step in range(-(-epochs * classes // k))])
    for epoch in range(epochs):
        assert sorted(shown[epoch * classes : (epoch + 1) * classes]) == list(range(classes))


def test_a_batch_that_needs_most_of_the_classes_still_covers_them_all() -> None:
    labels_N = np.repeat(np.arange(10), 4)
    batches = MPerClass(labels_N, 32, 4, seed=3)
    seen = Counter(label for step in range(100) for label in set(labels_N[batches.batch(step)].tolist()))
    assert set(seen) == set(range(10))
    assert min(seen.values()) > 60  # 80 on average


@settings(deadline=None)
@given(seed=seeds, step=st.integers(0, 10**6))
def test_a_batch_is_a_function_of_seed_and_step_alone(seed: int, step: int) -> None:
    labels_N = np.repeat(np.arange(17), 5)
    for per_class in (0, 4):
        used = sampler(labels_N, 20, per_class, seed)
        used.batch(0)
        used.batch(step + 1)
        fresh = sampler(labels_N, 20, per_class, seed)
        assert np.array_equal(used.batch(step), fresh.batch(step))


def test_another_seed_and_another_epoch_give_another_order() -> None:
    labels_N = np.repeat(np.arange(100), 5)
    one, other = (MPerClass(labels_N, 20, 4, seed) for seed in (0, 1))
    assert not np.array_equal(one.batch(0), other.batch(0))
    assert not np.array_equal(one.classes_of(0), one.classes_of(20))


def test_a_class_with_fewer_images_than_m_is_sampled_with_repetition() -> None:
    labels_N = np.array([0, 0, 1, 1, 1, 1])
    chosen_B = MPerClass(labels_N, 8, 4, seed=0).batch(0)
    assert Counter(labels_N[chosen_B].tolist()) == {0: 4, 1: 4}
    assert len(set(chosen_B[labels_N[chosen_B] == 1])) == 4


def test_random_images_show_each_image_once_an_epoch() -> None:
    batches = RandomImages(np.zeros(20, np.int64), 5, seed=2)
    for epoch in range(3):
        shown = np.concatenate([batches.batch(step) for step in range(4 * epoch, 4 * epoch + 4)])
        assert sorted(shown) == list(range(20))


@pytest.mark.parametrize(
    ("batch_size", "per_class", "message"),
    [
        (30, 4, r"batch_size must be a multiple of samples_per_class; got 30 and 4\. Use 28 or 32\."),
        (3, 4, r"got 3 and 4\. Use 4\."),
        (0, 4, r"must be at least 1; got 0 and 4\."),
        (8, -1, r"must be at least 1; got 8 and -1\."),
        (44, 4, r"44 = 11 classes × 4 needs 11 training classes; got 10\. Use a batch of 40 or less\."),
        (51, 0, r"between 1 and the 50 training images; got 51\."),
    ],
)
def test_impossible_batches_are_refused_with_the_remedy(
    batch_size: int, per_class: int, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        sampler(np.repeat(np.arange(10), 5), batch_size, per_class, seed=0)
