"""glyph_distilled: the classes of glyph_collage as single characters; cifar_distilled has the text's."""

from __future__ import annotations

from pathlib import Path

from dmltune.data.catalog import glyph_collage
from dmltune.data.images import ImageSet, Part


def load(part: Part, root: Path | None = None) -> ImageSet:
    """Load a part; `root` is not used."""
    return glyph_collage.recipe(part, root).distilled("glyph_distilled")
