"""glyphs: characters of the world's scripts, rendered from installed fonts.

A class is a character (homoglyphs merged), an instance its picture in one font face, a category its script.
About 2,400 classes with 28,000 pictures of 32×32, rendered in seconds and stored in the cache. Half of the
classes of every script train, half test.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
from PIL import features

from dmltune.data.cache import cached
from dmltune.data.catalog import _glyph_rendering, _homoglyphs
from dmltune.data.catalog._glyph_rendering import SIDE
from dmltune.data.images import ImageSet, Ints, Part, Pixels

VERSION = 1  # to be raised when a change of the code changes a picture or a class
MINIMUM_PICTURES = 6  # classes with fewer distinct ones are left out
SMALLEST_SCRIPT = 4  # scripts with fewer classes become "OTHER"


def load(part: Part, root: Path | None = None) -> ImageSet:
    """Load a part; `root` is not used."""
    return cached(f"glyphs-{_recipe()}", build, lambda folder: _open(folder, part))


def build(folder: Path) -> None:
    """Render the characters, and write the pictures (N, 32, 32) and labels of each part."""
    faces = [
        {character: picture.tobytes() for character, picture in _glyph_rendering.render(name, path).items()}
        for name, path in _glyph_rendering.faces().items()
    ]
    pictures = _homoglyphs.distinct_pictures(faces, _homoglyphs.representatives(faces))
    usable = sorted(character for character, group in pictures.items() if len(group) >= MINIMUM_PICTURES)
    scripts = _scripts(usable)
    for part, characters in halves(scripts).items():
        groups = [pictures[character] for character in characters]
        pixels = b"".join(picture for group in groups for picture in group)
        sizes = [len(group) for group in groups]
        names = [f"U+{ord(character):04X} {unicodedata.name(character)}" for character in characters]
        content = hashlib.sha256(json.dumps([part, sizes, names]).encode() + pixels)
        description = {
            "sizes": sizes,
            "class_names": names,
            "scripts": [scripts[character] for character in characters],
            "fingerprint": content.hexdigest()[:16],
        }
        np.save(folder / f"{part}.npy", np.frombuffer(pixels, np.uint8).reshape(-1, SIDE, SIDE))
        (folder / f"{part}.json").write_text(json.dumps(description), encoding="utf-8")


def halves(scripts: dict[str, str]) -> dict[Part, list[str]]:
    """Deal characters to the two parts alternately, script by script, in the order of a hash."""
    order = sorted(
        scripts, key=lambda character: (scripts[character], hashlib.sha256(character.encode()).digest())
    )
    return {"train": sorted(order[0::2]), "test": sorted(order[1::2])}


def _scripts(characters: list[str]) -> dict[str, str]:
    """Return each character's script, the first word of its name: GREEK SMALL LETTER ALPHA."""
    kinds = {"N": "NUMBER", "P": "PUNCTUATION", "S": "SYMBOL"}
    script_of = {
        character: kinds.get(unicodedata.category(character)[0]) or unicodedata.name(character).split()[0]
        for character in characters
    }
    names = list(script_of.values())
    large = {name for name in names if names.count(name) >= SMALLEST_SCRIPT}
    return {character: name if name in large else "OTHER" for character, name in script_of.items()}


def _recipe() -> str:
    """Return a hash of all that the pictures depend on: fonts, renderer, rules."""
    limits = (VERSION, MINIMUM_PICTURES, SMALLEST_SCRIPT)
    rules = (*limits, SIDE, _glyph_rendering.BASELINE, _glyph_rendering.POINTS)
    recipe = hashlib.sha256(repr((rules, _glyph_rendering.TEX_FACES)).encode())
    recipe.update(f"{features.version('freetype2')} {unicodedata.unidata_version}".encode())
    for name, path in _glyph_rendering.faces().items():
        recipe.update(name.encode() + path.read_bytes())
    return recipe.hexdigest()[:16]


def _open(folder: Path, part: Part) -> ImageSet:
    description: dict[str, Any] = json.loads((folder / f"{part}.json").read_text(encoding="utf-8"))
    pixels_NHW = np.asarray(np.load(folder / f"{part}.npy", mmap_mode="r", allow_pickle=False))
    if pixels_NHW.shape != (sum(description["sizes"]), SIDE, SIDE):
        raise ValueError(f"{folder / part}: pictures and labels do not match")
    category_names, category_C = np.unique(description["scripts"], return_inverse=True)
    labels_N = np.repeat(np.arange(len(description["sizes"]), dtype=np.int64), description["sizes"])

    def read(indices: Ints, side: int | None) -> list[Pixels]:
        return list(pixels_NHW[indices, :, :, None])

    names, fingerprint = tuple(description["class_names"]), description["fingerprint"]
    category_N, categories = category_C.astype(np.int64)[labels_N], tuple(map(str, category_names))
    return ImageSet("glyphs", part, labels_N, names, fingerprint, read, category_N, categories, margin=1.0)
