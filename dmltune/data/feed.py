"""Batches of images for `fit`: training, validation, and pools of every class.

Legend: B images of this rank, H=W=size pixels, K random numbers an image. Images are uint8 (B, 3, size, size)
with channels-last strides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from dmltune.data import augment as augmentations
from dmltune.data.images import ImageSet, Indices, Ints, Pixels
from dmltune.data.packed import at_size
from dmltune.data.samplers import (
    AUGMENTATION,
    MONITORED,
    POOL,
    POOL_AUGMENTATION,
    SamplesPerClass,
    generator,
    sampler,
)
from dmltune.data.splits import Split
from dmltune.errors import UserError

Batch = tuple[Tensor, Tensor]  # images (B, 3, size, size) uint8, labels (B,) int64
PoolBatch = tuple[Tensor, Tensor, Tensor]  # images, labels (B,), slots (B,) in 0 … per_class − 1
T = TypeVar("T")


class ImageFeed:
    """Batches that are pure functions of (seed, step) or (seed, round).

    A resume needs no state, and all ranks together get exactly the images of a single process. Background
    `threads` prepare the next `prefetch` batches. `cache` is a mode of `packed.at_size`. `monitored` is the
    least number of images to measure between validations, all of them without it. With `pinned`, batches are
    in page-locked memory, from which copies to a GPU do not hold the host up.
    """

    def __init__(
        self,
        train: ImageSet,
        split: Split,
        *,
        size: int,
        batch_size: int,
        samples_per_class: SamplesPerClass,
        augment: str,
        seed: int,
        rank: int = 0,
        world: int = 1,
        prefetch: int = 1,
        threads: int = 1,
        categories: int | None = None,
        cache: str | None = None,
        monitored: int | None = None,
        pinned: bool = False,
    ) -> None:
        if batch_size % world:
            raise UserError(
                f"batch_size must be a multiple of the number of workers; got {batch_size} and {world}."
                f" Use {batch_size - batch_size % world or world} or fewer workers."
            )
        self.size, self.batch_size, self.seed, self.rank, self.world = size, batch_size, seed, rank, world
        self._augmentation = augmentations.load(augment)
        self._train_N, self._validation_N = split.train_N, split.validation_N
        _, self._validation_labels_N = np.unique(train.labels_N[split.validation_N], return_inverse=True)
        places = whole_classes(self._validation_labels_N, monitored or len(split.validation_N))
        self.monitored_N = torch.from_numpy(places)
        classes, self._labels_N = np.unique(train.labels_N[split.train_N], return_inverse=True)
        self.num_classes = len(classes)
        category_N = None if train.category_N is None else train.category_N[split.train_N]
        self._sampler = sampler(self._labels_N, batch_size, samples_per_class, seed, category_N, categories)
        self._images = at_size(train, size, cache)
        self._prefetch, self._pinned = prefetch, pinned
        self._thread = ThreadPoolExecutor(threads, thread_name_prefix="feed") if prefetch else None
        self._pending: dict[int, Future[Batch]] = {}

    @property
    def class_counts(self) -> Ints:
        """The number of training images of each class, (num_classes,)."""
        return np.bincount(self._labels_N)

    @property
    def queries_N(self) -> Tensor | None:
        """Which validation images are queries; None where each is query and gallery."""
        query_N = self._images.query_N
        return None if query_N is None else torch.from_numpy(query_N[self._validation_N])

    def batch(self, step: int) -> Batch:
        """Return this rank's contiguous share of the batch of `step`."""
        pending = self._pending.pop(step, None)
        self._pending = {later: future for later, future in self._pending.items() if later > step}
        if self._thread is not None:
            for later in range(step + 1, step + 1 + self._prefetch):
                if later not in self._pending:
                    self._pending[later] = self._thread.submit(self._load, later)
        return pending.result() if pending else self._load(step)

    def validation(self, places_N: Tensor | None = None) -> Iterator[Batch]:
        """Yield this rank's validation images, or those at `places_N`, in order: rank, rank + world, …

        Labels are 0 … number of validation classes − 1.
        """
        mine_N = self._my_places(places_N)
        labels_N = self._validation_labels_N[mine_N]
        mine = evaluation_batches(self._images, self._validation_N[mine_N], self.size, labels_N)
        mine = (self._placed(*batch) for batch in mine)
        return mine if self._thread is None else _ahead(mine, self._thread)

    def validation_pictures(self, places: Sequence[int], side: int) -> list[Pixels]:
        """Return whole validation images with a shorter side of at most `side` pixels, to be shown."""
        return self._images.read(self._validation_N[np.asarray(places)], side)

    def pool(self, per_class: int, round: int) -> Iterator[PoolBatch]:
        """Yield this rank's share of up to `per_class` augmented images of every class.

        A class with fewer images has no samples in the last slots.
        """
        chosen_P, slots_P = self._choose(per_class, round)
        u_PK = generator(self.seed, POOL_AUGMENTATION, round).random(
            (len(chosen_P), self._augmentation.numbers)
        )
        mine = range(self.rank, len(chosen_P), self.world)

        def load(positions: range) -> PoolBatch:
            p = np.asarray(positions)
            images, labels = self._augmented(chosen_P[p], u_PK[p])
            return images, labels, torch.from_numpy(slots_P[p])

        batches = map(load, chunks(mine, _evaluation_batch(self.size)))
        return batches if self._thread is None else _ahead(batches, self._thread)

    def close(self) -> None:
        """End the background threads."""
        if self._thread is not None:
            self._thread.shutdown(wait=True, cancel_futures=True)
            self._thread = None
        self._pending.clear()

    def _my_places(self, places_N: Tensor | None) -> Ints:
        every = np.arange(len(self._validation_N)) if places_N is None else places_N.numpy()
        return every[self.rank :: self.world]

    def _load(self, step: int) -> Batch:
        each = self.batch_size // self.world
        share = slice(self.rank * each, (self.rank + 1) * each)
        # For the whole batch: the numbers of a position do not depend on the number of ranks.
        u_BK = generator(self.seed, AUGMENTATION, step).random((self.batch_size, self._augmentation.numbers))
        return self._augmented(self._sampler.batch(step)[share], u_BK[share])

    def _augmented(self, chosen_B: Ints, u_BK: augmentations.Uniform) -> Batch:
        images = self._images.read(self._train_N[chosen_B])
        pixels_BHWC = self._augmentation.apply(images, self.size, self._images.margin, u_BK)
        labels = torch.from_numpy(self._labels_N[chosen_B])
        return self._placed(augmentations.to_tensor(pixels_BHWC), labels)

    def _placed(self, images: Tensor, labels: Tensor) -> Batch:
        """Return a batch in the memory that it is sent from; called in the thread that prepares it."""
        return (images.pin_memory(), labels.pin_memory()) if self._pinned else (images, labels)

    def _choose(self, per_class: int, round: int) -> tuple[Ints, Ints]:
        """Return up to `per_class` random training images of each class, and their slots."""
        shuffled = generator(self.seed, POOL, round).permutation(len(self._labels_N))
        by_class = shuffled[np.argsort(self._labels_N[shuffled], kind="stable")]
        counts_C = np.bincount(self._labels_N)
        slots = np.arange(len(by_class)) - np.repeat(np.cumsum(counts_C) - counts_C, counts_C)
        return by_class[slots < per_class], slots[slots < per_class]


def whole_classes(labels_N: Ints, count: int) -> Ints:
    """Return the ascending places of the images of some classes (of 0, 1, …), `count` images or a few more.

    The classes are random and always the same, so that all trials of a search are monitored on the same
    images.
    """
    counts_C = np.bincount(labels_N)
    order_C = generator(0, MONITORED, 0).permutation(len(counts_C))
    enough = int(np.searchsorted(counts_C[order_C].cumsum(), count)) + 1
    return np.flatnonzero(np.isin(labels_N, order_C[:enough]))


def evaluation_batches(
    imageset: ImageSet, indices: Indices, size: int, labels: Ints | None = None, batch_size: int | None = None
) -> Iterator[Batch]:
    """Yield images as evaluation sees them, with their labels or the given ones."""
    chosen_N = np.asarray(indices, dtype=np.int64)
    labels_N = imageset.labels_N[chosen_N] if labels is None else labels
    side = int(np.ceil(size * imageset.margin))
    for positions in chunks(range(len(chosen_N)), batch_size or _evaluation_batch(size)):
        images = imageset.read(chosen_N[positions], side)
        pixels_BHWC = augmentations.evaluation_pixels(images, size, imageset.margin)
        yield augmentations.to_tensor(pixels_BHWC), torch.from_numpy(labels_N[positions])


def _evaluation_batch(size: int) -> int:
    """Return a batch size by pixels: 64 photos of 128 px, 256 glyphs."""
    return min(256, max(16, 64 * 128**2 // size**2))


def chunks(positions: range, length: int) -> Iterable[range]:
    return (positions[start : start + length] for start in range(0, len(positions), length))


def _ahead(items: Iterator[T], thread: ThreadPoolExecutor) -> Iterator[T]:
    """Yield the items; each is prepared in the background while the one before is used."""
    pending: Future[T | None] = thread.submit(next, items, None)
    while (item := pending.result()) is not None:
        pending = thread.submit(next, items, None)
        yield item
