"""The data sets. One is found by its file name: `catalog/cub.py` is `cub` and has `load(part, root,
**options) -> ImageSet`."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from pathlib import Path
from typing import Any, cast, get_args

from dmltune.data.images import ImageSet, Part
from dmltune.errors import UserError, nearest


def names() -> tuple[str, ...]:
    """The data sets there are, without importing any of them."""
    return tuple(
        sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))
    )


def load(name: str, part: Part, root: Path | None = None, **options: Any) -> ImageSet:
    """One half of a data set. "train" reads no image and no label of "test" beyond what says which is which.

    `root` is where data sets are kept (`--data-root`); None means the environment variable DMLTUNE_DATA.
    """
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


def lacking(images: ImageSet) -> str:
    """What a part has of what was published, if not all of it: 12 of 8,054 images, 4 of 98 classes."""
    published = getattr(importlib.import_module(f"{__name__}.{images.name}"), "PUBLISHED", {})
    found = len(images), images.num_classes
    pairs = zip(found, published.get(images.part, (None, None)), ("images", "classes"), strict=True)
    known = [(have, full, what) for have, full, what in pairs if full is not None]
    if all(have == full for have, full, _ in known):
        return ""
    return ", ".join(f"{have:,} of {full:,} {what}" for have, full, what in known)
