"""The data sets, found by file name: `catalog/cub.py` is `cub`.

A module has `load(part, root, **options)`, which returns an ImageSet, or a Listing where images are files.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from pathlib import Path
from typing import Any, cast, get_args

from dmltune.data.catalog._files import Listing
from dmltune.data.images import ImageSet, Missing, Part
from dmltune.errors import UserError, nearest, readable

RECALL_KS = (1, 2, 4, 8)  # of data sets whose module has none


def names() -> tuple[str, ...]:
    """Return the names of the data sets without importing them."""
    return tuple(
        sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))
    )


def load(
    name: str, part: Part, root: Path | None = None, *, missing: Missing = "error", **options: Any
) -> ImageSet:
    """Return one half of a data set; "train" looks at no image of "test".

    `root` is the folder of the data sets (`--data-root`, default $DMLTUNE_DATA). An option that is None is
    not given. `missing` is for the sets that list image files: with "error" a listed image that does not
    exist is a UserError, and one that cannot be decoded is a UserError when it is read. With "skip" both are
    left out, logged, named in `skipped` and part of the fingerprint; every image is decoded once to know it.
    """
    if missing not in get_args(Missing):
        raise UserError(
            f"data.missing must be error or skip; got {missing}{nearest(missing, get_args(Missing))}"
        )
    loaded = _loaded(name, part, root, options)
    return loaded.image_set(missing) if isinstance(loaded, Listing) else loaded


def files(name: str, part: Part, root: Path | None = None, **options: Any) -> tuple[ImageSet, list[Path]]:
    """Return a set as its lists have it, and the files of its images, which may be missing.

    A set whose images are not files has none. The fingerprint of a set of files is not known.
    """
    loaded = _loaded(name, part, root, options)
    return (loaded.images, loaded.files) if isinstance(loaded, Listing) else (loaded, [])


def needs_files(name: str) -> bool:
    """Return whether a data set has to be at hand as files; others are rendered or come with a package."""
    require_name(name)
    return hasattr(importlib.import_module(f"{__name__}.{name}"), "SOURCE")


def require_name(name: str) -> None:
    """Raise a UserError with the nearest name when there is no such data set."""
    if name not in names():
        known = nearest(name, names()) or f"; there are {', '.join(names())}."
        raise UserError(f"no data set {readable(name)}{known}")


def _loaded(name: str, part: Part, root: Path | None, options: dict[str, Any]) -> ImageSet | Listing:
    options = {option: value for option, value in options.items() if value is not None}
    require_name(name)
    if part not in get_args(Part):
        raise UserError(
            f"a data set has the parts 'train' and 'test'; got '{part}'{nearest(part, get_args(Part))}"
        )
    loader = importlib.import_module(f"{__name__}.{name}").load
    accepted = tuple(inspect.signature(loader).parameters)[2:]
    for option in options:
        if option not in accepted:
            raise UserError(f"unknown option '{option}' of data set '{name}'{nearest(option, accepted)}")
    return cast(ImageSet | Listing, loader(part, root, **options))


def published(name: str) -> dict[Part, tuple[int | None, int | None]]:
    """Return the published numbers of images and classes of each part, None where not known."""
    module = importlib.import_module(f"{__name__}.{name}")
    return cast(dict[Part, tuple[int | None, int | None]], getattr(module, "PUBLISHED", {}))


def recall_ks(name: str) -> tuple[int, ...]:
    """Return the k of R@k that the papers print for this data set."""
    if name not in names():
        return RECALL_KS
    module = importlib.import_module(f"{__name__}.{name}")
    return cast(tuple[int, ...], getattr(module, "RECALL_KS", RECALL_KS))


def smaller_lists(name: str) -> tuple[str, ...]:
    """Return the names of the test lists besides the one that is the test half by default."""
    module = importlib.import_module(f"{__name__}.{name}")
    return cast(tuple[str, ...], getattr(module, "SMALLER_LISTS", ()))


def counts(images: ImageSet) -> list[tuple[int, int, str]]:
    """Return the counts of a part, those published, and of what, where they are known."""
    full = published(images.name).get(images.part, (None, None))
    pairs = zip((len(images), images.num_classes), full, ("images", "classes"), strict=True)
    return [(have, whole, what) for have, whole, what in pairs if whole is not None]


def lacking(images: ImageSet) -> str:
    """Return "" for a complete part, else its counts: 12 of 8,054 images, 4 of 98 classes."""
    known = counts(images)
    if all(have == whole for have, whole, _ in known):
        return ""
    return ", ".join(f"{have:,} of {whole:,} {what}" for have, whole, what in known)
