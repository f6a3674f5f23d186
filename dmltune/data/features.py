"""Feature maps at the end of a frozen prefix, computed once a machine.

Training from them starts at the first layer that learns.

An entry of the cache is a file `maps` with (1 + V)·N maps, one after the other, and `shape.json`. View 0 is
what evaluation sees, the others are augmented; they are the same for every seed, fold and trial.

Legend: N images, V augmented views of each, B maps, K random numbers a view.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dmltune.data import augment as augmentations
from dmltune.data.cache import cache_folder, cached
from dmltune.data.feed import Batch, ImageFeed, chunks
from dmltune.data.files import amount
from dmltune.data.images import ImageSet, Ints
from dmltune.data.packed import at_size
from dmltune.data.samplers import VIEWS, generator
from dmltune.data.splits import Split
from dmltune.errors import UserError, parse_json

logger = logging.getLogger(__name__)

VERSION = 1
CHUNK = 8  # images in a batch of the prefix: more are no faster (train.inference.CPU_PIXELS)
TYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
_LARGE = 1e8  # bytes: more are logged


@dataclass(frozen=True)
class Views:
    """The input of the prefix: `count` augmented views of `size` pixels.

    `dtype` is that of the stored maps.
    """

    size: int
    augment: str
    count: int
    dtype: str = "float16"

    @property
    def augmented(self) -> int:
        """The number of augmented views; without augmentation view 0 trains."""
        return 0 if self.augment == "none" else self.count


class Maps:
    """(1 + V)·N maps in a memory-mapped file."""

    def __init__(self, rows: Tensor, images: int) -> None:
        self._rows, self._images = rows, images

    @property
    def views(self) -> int:
        return len(self._rows) // self._images - 1

    def read(self, images_B: Ints, views_B: Ints) -> Tensor:
        """Return maps (B, C, h, w) with channels-last strides, or outputs of another rank."""
        maps = self._rows[torch.from_numpy(views_B * self._images + images_B)]
        return maps.movedim(-1, 1) if maps.dim() == 4 else maps


def stored_maps(
    imageset: ImageSet, views: Views, prefix: Callable[[Tensor], Tensor], prefix_digest: str
) -> Maps:
    """Return the maps of every image; `prefix` takes uint8 images."""
    return cached(
        _entry(imageset, views, prefix_digest),
        lambda folder: _compute(imageset, views, prefix, folder),
        lambda folder: _open(len(imageset), views, folder),
    )


def is_stored(imageset: ImageSet, views: Views, prefix_digest: str) -> bool:
    """Return whether `stored_maps` has nothing to compute."""
    return (cache_folder() / _entry(imageset, views, prefix_digest)).is_dir()


def _entry(imageset: ImageSet, views: Views, prefix_digest: str) -> str:
    """Return the name of the maps in the cache."""
    content = (imageset.key, imageset.fingerprint, imageset.margin, views, prefix_digest)
    digest = hashlib.sha256(repr(content).encode()).hexdigest()[:24]
    return f"{imageset.name}-{imageset.part}-maps-{views.size}px-{digest}-v{VERSION}"


class MapFeed(ImageFeed):
    """A feed of stored maps in place of images, of the same samples in the same order.

    For every sample of training, and of a pool, one of its augmented views is drawn.
    """

    def __init__(self, train: ImageSet, split: Split, maps: Maps, **settings: Any) -> None:
        # The images are not read: no thread, no packed copy.
        super().__init__(train, split, **(settings | {"prefetch": 0, "cache": "none"}))
        self._maps = maps
        # its random number chooses the view
        self._augmentation = augmentations.Augmentation(1, augmentations.none)

    def validation(self, places_N: Tensor | None = None) -> Iterator[Batch]:
        """Yield this rank's validation maps, as `ImageFeed.validation` does images."""
        mine_N = self._my_places(places_N)
        for positions in chunks(range(len(mine_N)), 256):
            places = mine_N[positions]
            images_B = self._validation_N[places]
            maps = self._maps.read(images_B, np.zeros_like(images_B))
            yield self._placed(maps, torch.from_numpy(self._validation_labels_N[places]))

    def _augmented(self, chosen_B: Ints, u_BK: augmentations.Uniform) -> Batch:
        views_B = np.zeros_like(chosen_B)
        if self._maps.views:
            views_B = 1 + (u_BK[:, 0] * self._maps.views).astype(np.int64)
        maps = self._maps.read(self._train_N[chosen_B], views_B)
        return self._placed(maps, torch.from_numpy(self._labels_N[chosen_B]))


def _compute(imageset: ImageSet, views: Views, prefix: Callable[[Tensor], Tensor], folder: Path) -> None:
    augmentation = augmentations.load(views.augment)
    images, dtype = at_size(imageset, views.size), TYPES[views.dtype]
    size, margin = views.size, images.margin
    shape: list[int] = []
    with (folder / "maps").open("wb") as stream:
        for view in range(1 + views.augmented):
            # for the whole set: the numbers of an image do not depend on the chunks
            u_NK = generator(0, VIEWS, view).random((len(images), augmentation.numbers))
            for chosen in chunks(range(len(images)), CHUNK):
                if view:
                    pixels = augmentation.apply(images.read(chosen), size, margin, u_NK[chosen])
                else:
                    evaluated = images.read(chosen, math.ceil(size * margin))
                    pixels = augmentations.evaluation_pixels(evaluated, size, margin)
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


def _announce(imageset: ImageSet, views: Views, size: int) -> None:
    """Log the size of the maps, or refuse it where there is no room."""
    free = shutil.disk_usage(cache_folder()).free
    if size > free:
        raise UserError(
            f"feature maps take {amount(size)} and {cache_folder()} has {amount(free)} left; use"
            " fewer data.views, a later backbone.frozen_until, or set DMLTUNE_CACHE to another folder"
        )
    if size > _LARGE:
        what = f"{len(imageset):,} images of {imageset.name} × {1 + views.augmented} views"
        logger.info("feature maps of %s: %s in %s …", what, amount(size), cache_folder())


def _open(images: int, views: Views, folder: Path) -> Maps:
    shape, dtype = parse_json((folder / "shape.json").read_text()), TYPES[views.dtype]
    file = folder / "maps"
    count = math.prod(shape)
    if shape[0] != images * (1 + views.augmented) or file.stat().st_size != count * dtype.itemsize:
        raise ValueError(f"{file} does not have the size that its shape says")
    return Maps(torch.from_file(str(file), shared=False, size=count, dtype=dtype).view(shape), images)
