"""glyph_collage: the collage study of the thesis (§5.3.2) with characters.

Shared super-classes are four scripts of distinct appearance: Arabic, Armenian, Georgian and Lao. Partitions
and test have different characters of them, as the text's have different sub-classes. A class is a character
of another script with at least 12 pictures (the text has 20 sub-classes with 500 images); each picture is in
two collages of four times 32 × 32 pixels.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dmltune.data.catalog import glyphs
from dmltune.data.catalog._collage import PROTOCOL, CollageSet, Recipe
from dmltune.data.images import Part
from dmltune.data.splits import PARTITIONS

SHARED = ("ARABIC", "ARMENIAN", "GEORGIAN", "LAO")
SHARED_EACH = 5  # characters of each script in a partition; the smallest script has 15
CLASSES: dict[Part, int] = {"train": 240, "test": 32}  # the test classes are as many as in the text
MINIMUM_PICTURES = 12
REPEATS = 2


def load(part: Part, root: Path | None = None) -> CollageSet:
    """Load a part; `root` is not used."""
    return recipe(part, root).collages()


def recipe(part: Part, root: Path | None) -> Recipe:
    """Return how the collages of a part are made of single characters."""
    tiles = glyphs.load(part, root)
    assert tiles.category_N is not None
    pictures_C, first_C = np.bincount(tiles.labels_N), np.unique(tiles.labels_N, return_index=True)[1]
    script_C = np.array(tiles.category_names)[tiles.category_N[first_C]]
    eligible = np.flatnonzero(~np.isin(script_C, SHARED) & (pictures_C >= MINIMUM_PICTURES))
    # in random order: the first ones are all Latin letters
    foreground = np.random.default_rng(0).permutation(eligible)[: CLASSES[part]]
    members = [np.flatnonzero(script_C == script).tolist() for script in SHARED]
    parts = PARTITIONS[PROTOCOL] if part == "train" else 1
    shared = tuple(
        tuple(label for labels in members for label in labels[partition::parts][:SHARED_EACH])
        for partition in range(parts)
    )
    return Recipe("glyph_collage", part, tiles, tuple(foreground.tolist()), shared, REPEATS)
