"""A feed that measures how long validations and pools take, on a part of their images.

The images are read from a small sample in memory, so that nothing has to be packed first. When the time of a
validation or pool is up, the rest of its images are blank and the embedder answers without computing, which
leaves all shapes as they are. N images, B images of a batch.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dmltune.data.features import MapFeed, Maps
from dmltune.data.feed import Batch, ImageFeed, PoolBatch
from dmltune.data.images import ImageSet, Ints, Pixels

SAMPLE = 96  # images in memory
_NOISE = 1e-2  # between the points that are not computed: they are not equal


def sampled(images: ImageSet, size: int, among_N: Ints) -> ImageSet:
    """Return the set with a few of the images `among_N` in place of all; a set in memory stays as it is."""
    if not images.key or not len(images):
        return images
    side = math.ceil(size * images.margin)
    chosen = np.linspace(0, len(among_N) - 1, min(SAMPLE, len(among_N)), dtype=np.int64)
    memory = images.read(among_N[chosen], side)

    def read(indices: Ints, hint: int | None) -> list[Pixels]:
        return [memory[index % len(memory)] for index in indices]

    return images.with_reader(read)


@dataclass
class Pass:
    """One pass over validation images or a pool; `batches` are those computed: (images, seconds)."""

    kind: str
    images: int
    begun: float
    ended: float = 0.0
    batches: list[tuple[int, float]] = field(default_factory=list)

    @property
    def computed(self) -> int:
        return sum(count for count, _ in self.batches)

    @property
    def seconds(self) -> float:
        return sum(seconds for _, seconds in self.batches)

    def estimate(self, until: float) -> float:
        """Return the seconds of the whole pass, and of what is done with its points `until` then.

        The first batch is slower than the others, which stand for those that were not computed.
        """
        typical = self.batches[1:] or self.batches
        each = sum(seconds for _, seconds in typical) / max(1, sum(count for count, _ in typical))
        return self.seconds + each * (self.images - self.computed) + (until - self.ended)


class SampledFeed(ImageFeed):
    """An image feed whose passes end their computations after some seconds (`prepare`)."""

    skipping = False

    def prepare(self, limit: float) -> None:
        self.limit = limit
        self.passes: list[Pass] = []

    def validation(self, *places: Any) -> Iterator[Batch]:
        count = len(self._validation_N) if not places or places[0] is None else len(places[0])
        return self._timed("validation", count, super().validation(*places))

    def pool(self, per_class: int, round: int) -> Iterator[PoolBatch]:
        chosen_P, _ = self._choose(per_class, round)
        return self._timed("pool", len(chosen_P), super().pool(per_class, round))

    def _timed(self, kind: str, count: int, batches: Iterator[Any]) -> Iterator[Any]:
        current = Pass(kind, count, time.perf_counter())
        self.passes.append(current)
        begun = current.begun
        for batch in batches:
            yield batch
            if not self.skipping:
                now = time.perf_counter()
                current.batches.append((len(batch[1]), now - begun))
                begun, self.skipping = now, now - current.begun > self.limit
        self.skipping = False
        current.ended = time.perf_counter()

    def _augmented(self, chosen_B: Ints, u_BK: Any) -> Batch:
        if self.skipping:
            blank = torch.zeros(len(chosen_B), 3, 1, 1, dtype=torch.uint8)
            return blank, torch.from_numpy(self._labels_N[chosen_B])
        return super()._augmented(chosen_B, u_BK)


class SampledMapFeed(SampledFeed, MapFeed):
    """The same over stored maps."""


class SampledMaps(Maps):
    """A few computed maps in place of all."""

    def __init__(self, maps: Tensor, views: int) -> None:
        super().__init__(maps, 1)
        self._count, self._sampled_views = len(maps), views

    @property
    def views(self) -> int:
        return self._sampled_views

    def read(self, images_B: Ints, views_B: Ints) -> Tensor:
        maps = self._rows[torch.from_numpy((images_B + views_B) % self._count)]
        return maps.movedim(-1, 1) if maps.dim() == 4 else maps


def skip_with(feed: SampledFeed, compute: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Return `compute`, which repeats rows of its last result while the feed skips."""
    last: list[Tensor] = []

    def call(images: Tensor) -> Tensor:
        if feed.skipping and last:
            repeated = last[0][torch.arange(len(images), device=last[0].device) % len(last[0])]
            return repeated + _NOISE * torch.randn_like(repeated)
        result = compute(images)
        last[:] = [result.detach()]
        return result

    return call
