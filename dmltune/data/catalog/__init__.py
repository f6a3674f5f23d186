"""The data sets. One is found by its file name: `catalog/cub.py` is `cub` and has `load(part, root,
**options) -> ImageSet`."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from pathlib import Path
from typing import Any, cast, get_args

from dmltune.data.catalog._files import noting
from dmltune.data.images import ImageSet, Part
from dmltune.errors import UserError, nearest


def names() -> tuple[str, ...]:
    """The data sets there are, without importing any of them."""
    return tuple(
        sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))
    )


def load(name: str, part: Part, root: Path | None = None, **options: Any) -> ImageSet:
    """One half of a data set. "train" reads no image and no label of "test" beyond what says which is which.

    `root` is where data sets are kept (`--data-root`); None means the environment variable DMLTUNE_DATA. An
    option that is None is not given.
    """
    options = {option: value for option, value in options.items() if value is not None}
    if name not in names():
        raise UserError(
            f"no data set '{name}'{nearest(name, names()) or '; there are ' + ', '.join(names()) + '.'}"
        )
    if part not in get_args(Part):
        raise UserError(
            f"a data set has the parts 'train' and 'test'; got '{part}'{nearest(part, get_args(Part))}"
        )
    loader = importlib.import_module(f"{__name__}.{name}").load
    known = tuple(inspect.signature(loader).parameters)[2:]
    for option in options:
        if option not in known:
            raise UserError(f"unknown option '{option}' of data set '{name}'{nearest(option, known)}")
    return cast(ImageSet, loader(part, root, **options))


def files(name: str, part: Part, root: Path | None = None, **options: Any) -> tuple[ImageSet, list[Path]]:
    """A set as its lists have it, and its files in the order of its images, there or not; none where images
    are not files. Its fingerprint is not known.
    """
    with noting() as noted:
        images = load(name, part, root, **options)
    return images, noted


def published(name: str) -> dict[Part, tuple[int | None, int | None]]:
    """Images and classes of the parts that a data set has whole, as far as they are known."""
    numbers: dict[Part, tuple[int | None, int | None]]
    numbers = getattr(importlib.import_module(f"{__name__}.{name}"), "PUBLISHED", {})
    return numbers


def lacking(images: ImageSet) -> str:
    """What a part has of what was published, if not all of it: 12 of 8,054 images, 4 of 98 classes."""
    found = len(images), images.num_classes
    full = published(images.name).get(images.part, (None, None))
    pairs = zip(found, full, ("images", "classes"), strict=True)
    known = [(have, whole, what) for have, whole, what in pairs if whole is not None]
    if all(have == whole for have, whole, _ in known):
        return ""
    return ", ".join(f"{have:,} of {whole:,} {what}" for have, whole, what in known)
