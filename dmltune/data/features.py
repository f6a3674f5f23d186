"""The maps at the cut of a frozen prefix, computed once a machine: training then starts at the first layer
that learns.

An entry of the cache is a file `maps` with (1 + V)·N maps, one after the other, and `shape.json`. View 0 is
what evaluation sees, the others are augmented; they are the same for every seed, fold and trial.

Legend: N images, V augmented views of each, B maps, K random numbers a view.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dmltune.data import augment as augmentations
from dmltune.data.cache import cache_folder, cached
from dmltune.data.feed import Batch, ImageFeed
from dmltune.data.images import ImageSet, Ints
from dmltune.data.packed import at_size
from dmltune.data.samplers.seeding import generator
from dmltune.data.splits import Split
from dmltune.errors import UserError

VERSION = 1
CHUNK = 8  # images that the prefix sees at a time: more are no faster (evaluation.CPU_PIXELS)
TYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
_VIEWS = 64  # a purpose of its own for `generator`
_LARGE = 1e8  # bytes: less is not worth a line


@dataclass(frozen=True)
class Views:
    """What the prefix sees: `count` augmented views of `size` pixels; `dtype` is how maps are kept."""

    size: int
    augment: str
    count: int
    dtype: str = "float16"

    @property
    def augmented(self) -> int:
        """Where nothing is augmented, training sees the view of evaluation."""
        return 0 if self.augment == "none" else self.count


class Maps:
    """(1 + V)·N maps in a memory-mapped file."""

    def __init__(self, rows: Tensor, images: int) -> None:
        self._rows, self._images = rows, images

    @property
    def views(self) -> int:
        return len(self._rows) // self._images - 1

    def read(self, images_B: Ints, views_B: Ints) -> Tensor:
        """(B, C, h, w) that lie channels last, or whatever the prefix gives for an image."""
        maps = self._rows[torch.from_numpy(views_B * self._images + images_B)]
        return maps.movedim(-1, 1) if maps.dim() == 4 else maps


def stored_maps(
    imageset: ImageSet, views: Views, prefix: Callable[[Tensor], Tensor], prefix_digest: str
) -> Maps:
    """Of every image of the set. `prefix` takes uint8 images; `prefix_digest` names what it computes."""
    content = (imageset.key, imageset.fingerprint, imageset.margin, views, prefix_digest)
    digest = hashlib.sha256(repr(content).encode()).hexdigest()[:24]
    entry = f"{imageset.name}-{imageset.part}-maps-{views.size}px-{digest}-v{VERSION}"
    return cached(
        entry,
        lambda folder: _compute(imageset, views, prefix, folder),
        lambda folder: _open(len(imageset), views, folder),
    )


class MapFeed(ImageFeed):
    """A feed that yields stored maps in place of images, of the same samples in the same order. For every
    sample of training, and of a pool, one of its augmented views is drawn."""

    def __init__(self, train: ImageSet, split: Split, maps: Maps, **settings: Any) -> None:
        # The images themselves are not read: no thread, no packed copy.
        super().__init__(train, split, **(settings | {"prefetch": 0, "cache": "none"}))
        self._maps = maps
        self._augmentation = augmentations.Augmentation(1, augmentations.none)  # its number says which view

    def validation(self) -> Iterator[Batch]:
        """As `ImageFeed.validation`."""
        _, labels_N = np.unique(self._images.labels_N[self._validation_N], return_inverse=True)
        mine = np.arange(self.rank, len(labels_N), self.world)
        for places_B in np.split(mine, range(256, len(mine), 256)):
            if len(places_B):
                images_B = self._validation_N[places_B]
                maps = self._maps.read(images_B, np.zeros_like(images_B))
                yield maps, torch.from_numpy(labels_N[places_B])

    def _augmented(self, chosen_B: Ints, u_BK: augmentations.Uniform) -> Batch:
        views_B = np.zeros_like(chosen_B)
        if self._maps.views:
            views_B = 1 + (u_BK[:, 0] * self._maps.views).astype(np.int64)
        maps = self._maps.read(self._train_N[chosen_B], views_B)
        return maps, torch.from_numpy(self._labels_N[chosen_B])


def _compute(imageset: ImageSet, views: Views, prefix: Callable[[Tensor], Tensor], folder: Path) -> None:
    augmentation = augmentations.load(views.augment)
    images, dtype = at_size(imageset, views.size), TYPES[views.dtype]
    shape: list[int] = []
    with (folder / "maps").open("wb") as stream:
        for view in range(1 + views.augmented):
            # for the whole set: the numbers of an image do not depend on how it is cut into chunks
            u_NK = generator(0, _VIEWS, view).random((len(images), augmentation.numbers))
            for start in range(0, len(images), CHUNK):
                chosen = np.arange(start, min(start + CHUNK, len(images)))
                pixels = _pixels(images, chosen, views, augmentation, u_NK if view else None)
                maps = prefix(augmentations.to_tensor(pixels))
                rows = (maps.movedim(1, -1) if maps.dim() == 4 else maps).to("cpu", dtype).contiguous()
                if not rows.isfinite().all():
                    raise UserError(
                        f"feature maps reach {float(maps.abs().max()):.3g}, too much for data.maps "
                        f"{views.dtype}; use bfloat16 or float32"
                    )
                if not shape:
                    shape = [len(images) * (1 + views.augmented), *rows.shape[1:]]
                    _announce(imageset, views, math.prod(shape) * dtype.itemsize)
                stream.write(rows.view(torch.uint8).numpy().data)
    (folder / "shape.json").write_text(json.dumps(shape))


def _pixels(
    images: ImageSet,
    chosen: Ints,
    views: Views,
    augmentation: augmentations.Augmentation,
    u_NK: augmentations.Uniform | None,
) -> Any:
    if u_NK is None:
        side = math.ceil(views.size * images.margin)
        return augmentations.evaluation_pixels(images.read(chosen, side), views.size, images.margin)
    return augmentation.apply(images.read(chosen), views.size, images.margin, u_NK[chosen])


def _announce(imageset: ImageSet, views: Views, size: int) -> None:
    """Before most of it is written: how large it becomes, and an end where there is no room."""
    free = shutil.disk_usage(cache_folder()).free
    if size > free:
        raise UserError(
            f"feature maps take {size / 1e9:.1f} GB and {cache_folder()} has {free / 1e9:.1f} GB left; use"
            " fewer data.views, a later backbone.frozen_until, or set DMLTUNE_CACHE to another folder"
        )
    if size > _LARGE:
        what = f"{len(imageset):,} images of {imageset.name} × {1 + views.augmented} views"
        print(f"feature maps of {what}: {size / 1e9:.2f} GB in {cache_folder()} …", file=sys.stderr)


def _open(images: int, views: Views, folder: Path) -> Maps:
    shape, dtype = json.loads((folder / "shape.json").read_text()), TYPES[views.dtype]
    file = folder / "maps"
    count = math.prod(shape)
    if shape[0] != images * (1 + views.augmented) or file.stat().st_size != count * dtype.itemsize:
        raise ValueError(f"{file} does not have the size that its shape says")
    return Maps(torch.from_file(str(file), shared=False, size=count, dtype=dtype).view(shape), images)
