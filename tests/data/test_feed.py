from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dmltune.data import augment, catalog
from dmltune.data.feed import ImageFeed, evaluation_batches
from dmltune.data.images import ImageSet, Part
from dmltune.data.splits import Split, split
from dmltune.errors import UserError

MakeSet = Callable[..., ImageSet]


def feed(images: ImageSet, **changes: Any) -> ImageFeed:
    settings: dict[str, Any] = {
        "size": 8,
        "batch_size": 8,
        "samples_per_class": 2,
        "augment": "crop_flip",
        "seed": 3,
        "prefetch": 0,
    }
    return ImageFeed(images, split(images.labels_N, "ablation"), **(settings | changes))


@pytest.fixture
def images(make_set: MakeSet) -> ImageSet:
    return make_set([5, 3, 6, 2, 4, 7, 3, 5, 8])


@pytest.mark.parametrize("per_class", [0, 2])
def test_the_ranks_together_see_what_one_process_sees(images: ImageSet, per_class: int) -> None:
    for augmentation in augment.names():
        alone = feed(images, augment=augmentation, samples_per_class=per_class)
        ranks = [
            feed(images, augment=augmentation, samples_per_class=per_class, rank=r, world=2) for r in range(2)
        ]
        for step in (0, 1, 17):
            shares = [rank.batch(step) for rank in ranks]
            whole, labels_B = alone.batch(step)
            assert torch.equal(torch.cat([share for share, _ in shares]), whole)
            assert torch.equal(torch.cat([labels for _, labels in shares]), labels_B)


def test_the_glyphs_reach_two_ranks_and_one_alike(glyphs: dict[Part, ImageSet]) -> None:
    settings: dict[str, Any] = {"size": 32, "batch_size": 64, "samples_per_class": 4, "augment": "shift"}
    alone = feed(glyphs["train"], **settings)
    ranks = [feed(glyphs["train"], **settings, rank=r, world=2) for r in range(2)]
    whole, labels_B = alone.batch(5)
    assert whole.shape == (64, 3, 32, 32)
    assert torch.equal(torch.cat([rank.batch(5)[0] for rank in ranks]), whole)
    assert (labels_B.bincount()[labels_B] == 4).all()


def test_the_birds_come_in_the_size_asked_for(data_root: Path) -> None:
    birds = catalog.load("cub", "train", data_root)
    few = Split(np.flatnonzero(birds.labels_N < 4), np.flatnonzero(birds.labels_N == 7)[:5])
    chosen = ImageFeed(
        birds, few, size=24, batch_size=8, samples_per_class=4, augment="crop_flip", seed=0, prefetch=0
    )
    assert chosen.batch(0)[0].shape == (8, 3, 24, 24)
    (validation,) = chosen.validation()
    (direct,) = evaluation_batches(birds, few.validation_N, 24)
    assert torch.equal(validation[0], direct[0])  # the packed images are those that were decoded
    assert direct[1].tolist() == [7] * 5
    assert validation[1].tolist() == [0] * 5


def test_a_batch_depends_on_seed_and_step_not_on_history_or_prefetching(images: ImageSet) -> None:
    used, fresh, other = feed(images, prefetch=3, threads=2), feed(images), feed(images, seed=4)
    for step in (0, 1, 2, 9, 4, 4):  # forwards, a jump, a resume further back, the same again
        assert torch.equal(used.batch(step)[0], fresh.batch(step)[0])
    assert not torch.equal(fresh.batch(0)[0], fresh.batch(1)[0])
    assert not torch.equal(fresh.batch(0)[0], other.batch(0)[0])
    used.close()


def test_training_labels_are_contiguous_and_name_one_class_each(images: ImageSet) -> None:
    chosen = feed(images, augment="none", size=16)
    part = split(images.labels_N, "ablation")
    assert chosen.num_classes == 6
    owners = defaultdict(set)
    by_content = {
        one.numpy().tobytes(): images.labels_N[index]
        for index in part.train_N
        for one in next(evaluation_batches(images, [index], 16))[0]
    }
    for step in range(12):
        for one, label in zip(*chosen.batch(step), strict=True):
            owners[int(label)].add(by_content[one.numpy().tobytes()])
    assert sorted(owners) == list(range(6))
    assert all(len(classes) == 1 for classes in owners.values())


@pytest.mark.parametrize("prefetch", [0, 1])
def test_validation_deals_every_image_once_to_the_ranks_in_turn(images: ImageSet, prefetch: int) -> None:
    for world in [1, 2, 3]:
        part = split(images.labels_N, "ablation")
        (expected, labels_V), *rest = evaluation_batches(images, part.validation_N, 8)
        assert not rest
        for rank in range(world):
            chosen = feed(
                images,
                rank=rank,
                world=world,
                batch_size=2 * world * 1,
                samples_per_class=1,
                prefetch=prefetch,
            )
            got = list(chosen.validation())
            assert torch.equal(torch.cat([batch for batch, _ in got]), expected[rank::world])
            labels = torch.cat([labels for _, labels in got])
            assert torch.equal(labels, torch.unique(labels_V, return_inverse=True)[1][rank::world])
            chosen.close()


def test_a_pool_has_different_samples_in_every_slot_and_all_of_a_small_class(images: ImageSet) -> None:
    part = split(images.labels_N, "ablation")
    _, labels_N = np.unique(images.labels_N[part.train_N], return_inverse=True)
    chosen = feed(images, augment="none", size=16)
    pictures, labels, slots = (torch.cat(column) for column in zip(*chosen.pool(4, round=0), strict=True))
    assert len({picture.numpy().tobytes() for picture in pictures}) == len(pictures)
    for label, count in enumerate(np.bincount(labels_N)):
        assert sorted(slots[labels == label].tolist()) == list(range(min(4, count)))


def test_a_pool_is_the_same_on_any_number_of_ranks_and_new_in_every_round(images: ImageSet) -> None:
    def by_slot(chosen: ImageFeed, round: int) -> dict[tuple[int, int], bytes]:
        return {
            (int(label), int(slot)): picture.numpy().tobytes()
            for batch in chosen.pool(3, round)
            for picture, label, slot in zip(*batch, strict=True)
        }

    alone = by_slot(feed(images), 1)
    shares = [by_slot(feed(images, rank=rank, world=2), 1) for rank in range(2)]
    assert not shares[0].keys() & shares[1].keys()
    assert shares[0] | shares[1] == alone
    assert by_slot(feed(images), 2) != alone
    assert by_slot(feed(images, prefetch=1), 1) == alone


def test_evaluation_keeps_the_order_over_several_batches(images: ImageSet) -> None:
    order = np.random.default_rng(0).permutation(len(images))
    got = list(evaluation_batches(images, order, 8, batch_size=16))
    assert [len(labels) for _, labels in got] == [16, 16, 11]
    assert torch.cat([labels for _, labels in got]).tolist() == images.labels_N[order].tolist()


def test_closing_ends_the_background_thread_and_batches_still_come(images: ImageSet) -> None:
    chosen = feed(images, prefetch=1)
    expected = chosen.batch(0)[0]
    assert any(thread.name.startswith("feed") for thread in threading.enumerate())
    chosen.close()
    chosen.close()
    assert not any(thread.name.startswith("feed") for thread in threading.enumerate())
    assert torch.equal(chosen.batch(0)[0], expected)


def test_an_error_while_reading_ahead_reaches_the_caller(images: ImageSet) -> None:
    def fails(indices: Any, side: int | None) -> Any:
        raise UserError("image 3 cannot be read")

    chosen = feed(images.with_reader(fails), prefetch=1)
    for _ in range(2):
        with pytest.raises(UserError, match="image 3 cannot be read"):
            chosen.batch(1)
    with pytest.raises(UserError, match="image 3 cannot be read"):
        list(chosen.validation())
    chosen.close()


def test_hard_batches_reach_two_ranks_and_one_alike_with_the_categories_of_the_training_images(
    images: ImageSet,
) -> None:
    # By class; the categories of the validation classes are others and never show.
    part = split(images.labels_N, "ablation")
    trained = np.unique(images.labels_N[part.train_N])
    category_C = np.full(images.num_classes, 9)
    category_C[trained] = np.arange(len(trained)) % 3
    sorted_out = replace(images, category_N=category_C[images.labels_N])
    alone = feed(sorted_out, categories=2)
    ranks = [feed(sorted_out, categories=2, rank=rank, world=2) for rank in range(2)]
    seen = set()
    for step in range(6):
        whole, labels_B = alone.batch(step)
        shares = [rank.batch(step) for rank in ranks]
        assert torch.equal(torch.cat([share for share, _ in shares]), whole)
        assert torch.equal(torch.cat([labels for _, labels in shares]), labels_B)
        halves = [set(category_C[trained[half]].tolist()) for half in labels_B.numpy().reshape(2, 4)]
        assert [len(half) for half in halves] == [1, 1]
        seen.add(tuple(sorted(halves[0] | halves[1])))
    assert seen == {(0, 1), (0, 2), (1, 2)}


def test_the_glyphs_come_in_batches_of_two_scripts(glyphs: dict[Part, ImageSet]) -> None:
    train = glyphs["train"]
    chosen = feed(train, categories=2, batch_size=32, samples_per_class=4, size=32, augment="none")
    part = split(train.labels_N, "ablation")
    assert train.category_N is not None
    script_C = train.category_N[part.train_N][np.unique(train.labels_N[part.train_N], return_index=True)[1]]
    scripts = script_C[chosen.batch(3)[1].numpy()]
    assert (np.unique(scripts[:16]).size, np.unique(scripts[16:]).size, np.unique(scripts).size) == (1, 1, 2)


def test_hard_batches_of_images_without_categories_are_refused(images: ImageSet) -> None:
    with pytest.raises(UserError, match=r"need a data set with categories; leave categories out\."):
        feed(images, categories=2)


def test_class_counts_are_those_of_the_training_images_by_label(images: ImageSet) -> None:
    chosen = feed(images)
    part = split(images.labels_N, "ablation")
    expected = [(images.labels_N == c).sum() for c in np.unique(images.labels_N[part.train_N])]
    assert chosen.class_counts.tolist() == expected
    assert len(expected) == chosen.num_classes


def test_a_batch_that_workers_cannot_share_is_refused(images: ImageSet) -> None:
    with pytest.raises(
        UserError, match=r"multiple of the number of workers; got 8 and 3\. Use 6 or fewer workers\."
    ):
        feed(images, world=3)


def test_a_feed_keeps_its_images_as_it_is_told(images: ImageSet, cache: Path) -> None:
    decoded: list[int] = []

    def read(indices: Any, side: int | None) -> Any:
        decoded.extend(indices)
        return images.reader(indices, side)

    photos = replace(images.with_reader(read), name="told", key="k")
    packed, unpacked = (feed(photos, cache=mode) for mode in ("disk", "none"))
    decoded.clear()
    expected = packed.batch(3)[0]
    assert not decoded
    assert torch.equal(unpacked.batch(3)[0], expected)
    assert len(decoded) == 8
    assert [path.name[:4] for path in cache.glob("told-*")] == ["told"]


def test_monitored_images_are_whole_classes_and_the_same_for_every_seed_and_rank(images: ImageSet) -> None:
    alone = feed(images, monitored=6)
    validated = torch.cat([labels for _, labels in alone.validation()])
    part = validated[alone.monitored_N]
    assert len(part) >= 6 > len(part) - max(torch.bincount(part)).item()
    assert set(part.tolist()).isdisjoint(
        validated[~torch.isin(torch.arange(len(validated)), alone.monitored_N)].tolist()
    )
    other = feed(images, monitored=6, seed=9, rank=1, world=2)
    assert torch.equal(other.monitored_N, alone.monitored_N)
    ranks = [feed(images, monitored=6, rank=rank, world=2) for rank in (0, 1)]
    shares = [torch.cat([x for x, _ in rank.validation(rank.monitored_N)]) for rank in ranks]
    whole = torch.cat([x for x, _ in alone.validation()])[alone.monitored_N]
    for rank in (0, 1):
        assert torch.equal(shares[rank], whole[rank::2])
    assert len(feed(images, monitored=10**6).monitored_N) == len(validated)
