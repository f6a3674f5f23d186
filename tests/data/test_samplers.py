from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmltune.data.images import Ints
from dmltune.data.samplers import MPerClass, RandomImages, TwoCategories, sampler
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


def test_impossible_batches_are_refused_with_the_remedy() -> None:
    for batch_size, per_class, message in [
        (30, 4, r"batch_size must be a multiple of samples_per_class; got 30 and 4\. Use 28 or 32\."),
        (3, 4, r"got 3 and 4\. Use 4\."),
        (0, 4, r"must be at least 1; got 0 and 4\."),
        (8, -1, r"must be at least 1; got 8 and -1\."),
        (44, 4, r"44 = 11 classes × 4 needs 11 training classes; got 10\. Use a batch of 40 or less\."),
        (51, 0, r"between 1 and the 50 training images; got 51\."),
    ]:
        with pytest.raises(UserError, match=message):
            sampler(np.repeat(np.arange(10), 5), batch_size, per_class, seed=0)


def in_categories(classes_of_category: dict[int, int], images: int = 4) -> tuple[Ints, Ints]:
    """Shuffled labels and categories; so many classes a category, each with `images` images."""
    category_C = np.repeat(list(classes_of_category), list(classes_of_category.values()))
    labels_N = np.random.default_rng(1).permutation(np.repeat(np.arange(len(category_C)), images))
    return labels_N, category_C[labels_N]


@settings(deadline=None, max_examples=50)
@given(
    sizes=st.lists(st.integers(1, 7), min_size=2, max_size=6),
    half=st.integers(1, 20),
    per_class=st.sampled_from([0, 1, 3]),
    seed=seeds,
)
def test_a_hard_batch_has_half_its_images_from_each_of_two_categories(
    sizes: list[int], half: int, per_class: int, seed: int
) -> None:
    size = 2 * half * max(1, per_class)
    labels_N, category_N = in_categories(dict(enumerate(sizes)))
    batches = sampler(labels_N, size, per_class, seed, category_N, categories=2)
    assert isinstance(batches, TwoCategories)
    for step in range(4):
        chosen_B = batches.batch(step)
        pair = batches.categories_of(step)
        assert len(set(pair)) == 2
        assert category_N[chosen_B].tolist() == [c for c in pair for _ in range(size // 2)]


@settings(deadline=None, max_examples=30)
@given(categories=st.integers(2, 9), seed=seeds)
def test_every_pair_of_categories_comes_once_a_round_in_a_new_order(categories: int, seed: int) -> None:
    labels_N, category_N = in_categories({3 * c: 2 for c in range(categories)})
    batches = TwoCategories(labels_N, 8, 2, seed, category_N)
    total = math.comb(categories, 2)
    rounds = [[batches.categories_of(n * total + step) for step in range(total)] for n in range(4)]
    for pairs in rounds:
        assert sorted(pairs) == [
            (a, b) for a in range(0, 3 * categories, 3) for b in range(a + 3, 3 * categories, 3)
        ]
    assert total < 6 or len({tuple(pairs) for pairs in rounds}) > 1


def test_sop_has_66_and_in_shop_253_pairs_a_round() -> None:
    for categories, pairs in ((12, 66), (23, 253)):
        labels_N, category_N = in_categories(dict.fromkeys(range(categories), 2))
        assert len(TwoCategories(labels_N, 8, 2, 0, category_N).round) == pairs


def test_m_different_images_of_each_of_different_classes_where_the_category_has_them() -> None:
    labels_N, category_N = in_categories({0: 9, 1: 5}, images=6)
    batches = TwoCategories(labels_N, 30, 3, 4, category_N)
    for step in range(20):
        chosen_B = batches.batch(step)
        assert len(set(chosen_B)) == 30
        assert set(Counter(labels_N[chosen_B].tolist()).values()) == {3}


def test_with_all_images_a_class_is_whole_but_for_the_last_of_each_half() -> None:
    labels_N, category_N = in_categories({0: 9, 1: 9}, images=4)
    batches = TwoCategories(labels_N, 28, 0, 4, category_N)
    shown: Counter[int] = Counter()
    for step in range(20):
        chosen_B = batches.batch(step)
        assert len(set(chosen_B)) == 28
        for half_H in np.split(labels_N[chosen_B], 2):
            assert sorted(Counter(half_H.tolist()).values()) == [2, 4, 4, 4]
        shown.update(labels_N[chosen_B].tolist())
    assert len(shown) == 18


@pytest.mark.parametrize("per_class", [0, 2])
def test_a_category_too_small_for_half_a_batch_repeats_its_images_in_turns(per_class: int) -> None:
    labels_N, category_N = in_categories({0: 3, 1: 30}, images=2)
    chosen_B = TwoCategories(labels_N, 40, per_class, 0, category_N).batch(0)
    times = Counter(chosen_B[:20].tolist())  # 20 of 6 images
    assert len(times) == 6
    assert set(times.values()) == {3, 4}
    assert len(set(chosen_B[20:])) == 20


def test_where_categories_are_not_known_half_of_a_batch_is_from_there() -> None:
    labels_N, category_N = in_categories({-1: 40, 4: 10, 7: 30, 9: 1}, images=5)
    batches = TwoCategories(labels_N, 20, 5, 3, category_N)
    for n in range(3):
        pairs = [batches.categories_of(n * len(batches.round) + step) for step in range(len(batches.round))]
        # N_c / (B/2): 50, 150 and 5 images fill half a batch of 10 so often, the last one at least once
        assert Counter(pairs) == {(4, -1): 5, (7, -1): 15, (9, -1): 1}
    chosen_B = batches.batch(1)
    assert (category_N[chosen_B[10:]] == -1).all()
    assert (category_N[chosen_B[:10]] == batches.categories_of(1)[0]).all()


def test_a_class_with_images_in_two_categories_is_in_that_of_its_first() -> None:
    labels_N, category_N = np.array([0, 1, 0, 1]), np.array([5, 6, 6, 6])
    chosen_B = TwoCategories(labels_N, 4, 2, 0, category_N).batch(0)
    assert labels_N[chosen_B].tolist() == [0, 0, 1, 1]


@settings(deadline=None, max_examples=30)
@given(seed=seeds, step=st.integers(0, 10**6), per_class=st.sampled_from([0, 2]))
def test_a_hard_batch_is_a_function_of_seed_and_step_alone(seed: int, step: int, per_class: int) -> None:
    labels_N, category_N = in_categories({-1: 4, 0: 5, 1: 6} if seed % 2 else {0: 5, 1: 6, 2: 3})
    used = TwoCategories(labels_N, 12, per_class, seed, category_N)
    used.batch(0)
    used.batch(step + 1)
    assert np.array_equal(
        used.batch(step), TwoCategories(labels_N, 12, per_class, seed, category_N).batch(step)
    )


def test_impossible_hard_batches_are_refused_with_the_remedy() -> None:
    for batch_size, per_class, given_categories, categories, message in [
        (9, 0, {0: 2, 1: 2}, 2, r"batch_size must be even; got 9\. Use 8 or 10\."),
        (12, 4, {0: 2, 1: 2}, 2, r"a multiple of 2 × samples_per_class = 8; got 12\. Use 8 or 16\."),
        (6, 4, {0: 2, 1: 2}, 2, r"got 6\. Use 8\."),
        (0, 4, {0: 2, 1: 2}, 2, r"at least 2 and samples_per_class at least 0; got 0 and 4\."),
        (8, 2, {3: 2}, 2, r"need training classes of 2 categories; got 1\. Leave categories out\."),
        (8, 2, {-1: 9}, 2, r"need training classes of 2 categories; got 1\."),
        (8, 2, {}, 2, r"need a data set with categories; leave categories out\."),
        (9, 3, {0: 2, 1: 2}, 3, r"categories must be 2 \(hard batches\) or left out; got 3\."),
    ]:
        labels_N, category_N = in_categories(given_categories or {0: 9})
        with pytest.raises(UserError, match=message):
            sampler(labels_N, batch_size, per_class, 0, category_N if given_categories else None, categories)


def test_a_data_set_with_categories_is_sampled_as_before_without_the_wish_for_them() -> None:
    labels_N, category_N = in_categories({0: 5, 1: 6})
    for per_class in (0, 2):
        expected = sampler(labels_N, 12, per_class, 3).batch(7)
        assert np.array_equal(sampler(labels_N, 12, per_class, 3, category_N).batch(7), expected)


@settings(deadline=None, max_examples=50)
@given(sizes=st.lists(st.integers(1, 30), min_size=2, max_size=40), half=st.integers(1, 20), seed=seeds)
def test_a_drawn_class_comes_with_all_its_images_and_only_the_last_is_cut(
    sizes: list[int], half: int, seed: int
) -> None:
    labels_N = np.random.default_rng(1).permutation(np.repeat(np.arange(len(sizes)), sizes))
    if sum(min(size, half) for size in sizes) < 2 * half:
        return
    batches = sampler(labels_N, 2 * half, "all", seed)
    for step in range(4):
        chosen_B = batches.batch(step)
        assert len(set(chosen_B)) == 2 * half
        in_order = list(dict.fromkeys(labels_N[chosen_B].tolist()))
        taken = Counter(labels_N[chosen_B].tolist())
        assert len(taken) >= 2
        for label in in_order[:-1]:
            assert taken[label] == min(sizes[label], half)
        assert labels_N[chosen_B].tolist() == [label for label in in_order for _ in range(taken[label])]


def test_whole_classes_are_drawn_equally_often_and_as_a_function_of_seed_and_step() -> None:
    labels_N = np.repeat(np.arange(20), 5)
    used = sampler(labels_N, 20, "all", 3)
    seen = Counter(label for step in range(500) for label in set(labels_N[used.batch(step)].tolist()))
    assert all(70 < times < 130 for times in seen.values())  # 100 on average, σ = 9
    assert np.array_equal(used.batch(7), sampler(labels_N, 20, "all", 3).batch(7))
    assert not np.array_equal(used.batch(7), sampler(labels_N, 20, "all", 4).batch(7))


def test_whole_classes_that_cannot_fill_a_batch_are_refused() -> None:
    with pytest.raises(UserError, match="got 12, and 11 images"):
        sampler(np.repeat([0, 1], [5, 9]), 12, "all", 0)


def test_all_images_of_a_class_in_a_hard_batch() -> None:
    labels_N, category_N = in_categories({0: 9, 1: 9}, images=4)
    chosen_B = sampler(labels_N, 28, "all", 4, category_N, categories=2).batch(1)
    for half_H in np.split(labels_N[chosen_B], 2):
        assert sorted(Counter(half_H.tolist()).values()) == [2, 4, 4, 4]
