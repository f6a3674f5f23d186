"""Render characters as 32×32 pictures, one for every font face that comes with matplotlib."""

from __future__ import annotations

import importlib.util
import string
import unicodedata
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from dmltune.data.images import Pixels
from dmltune.errors import UserError

SIDE = 32
BASELINE = 23  # the row a letter stands on
POINTS = 22  # pixels to the em: nearly all letters with accents fit

# Of matplotlib's 40 files these 22. Left out: LastResortHE maps every code point to a placeholder; cmsy,
# cmex, STIXNonUni and STIXSiz are symbol-mapped; the two Display faces hold a handful of integrals.
TEXT_FACES = (
    *("DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-BoldOblique", "DejaVuSans-Oblique"),
    *("DejaVuSansMono", "DejaVuSansMono-Bold", "DejaVuSansMono-BoldOblique", "DejaVuSansMono-Oblique"),
    *("DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSerif-BoldItalic", "DejaVuSerif-Italic"),
    *("STIXGeneral", "STIXGeneralBol", "STIXGeneralBolIta", "STIXGeneralItalic"),
)
# Computer Modern has TeX's own encoding: these characters are where Unicode says, in every one of the faces.
TEX_FACES = dict.fromkeys(
    ("cmb10", "cmr10", "cmss10", "cmti10", "cmtt10"),
    string.ascii_letters + string.digits + "!#%&()*+,-./:;=?@[]",
) | {"cmmi10": string.ascii_letters}


def faces() -> dict[str, Path]:
    """Return the font files by name.

    matplotlib is not imported: that takes half a second and builds a font cache.
    """
    package = importlib.util.find_spec("matplotlib")
    roots = package.submodule_search_locations if package else None
    folder = Path(roots[0] if roots else "matplotlib") / "mpl-data" / "fonts" / "ttf"
    files = {name: folder / f"{name}.ttf" for name in (*TEXT_FACES, *TEX_FACES)}
    if missing := [path.name for path in files.values() if not path.is_file()]:
        raise UserError(
            f"glyphs is rendered from matplotlib's fonts, and {missing[0]} is not in {folder};"
            " run: pip install --force-reinstall matplotlib"
        )
    return files


def render(name: str, path: Path) -> dict[str, Pixels]:
    """Return every usable character of a face, (32, 32) white on black, without blank ones."""
    characters = TEX_FACES[name] if name in TEX_FACES else filter(is_visible, _mapped(path))
    font = ImageFont.truetype(str(path), POINTS, layout_engine=ImageFont.Layout.BASIC)
    pictures = {}
    for character in characters:
        ink_HW, top = _ink(font, character)
        if ink_HW.size == 0:
            continue
        if max(ink_HW.shape) > SIDE:
            smaller = font.font_variant(size=int(POINTS * SIDE / max(ink_HW.shape)))
            ink_HW, top = _ink(smaller, character)
            ink_HW = ink_HW[:SIDE, :SIDE]  # hinting may add a pixel
            if ink_HW.size == 0:
                continue
        height, width = ink_HW.shape
        row, column = min(max(BASELINE + top, 0), SIDE - height), (SIDE - width) // 2
        picture = np.zeros((SIDE, SIDE), np.uint8)
        picture[row : row + height, column : column + width] = ink_HW
        pictures[character] = picture
    return pictures


def is_visible(character: str) -> bool:
    """Return whether a character is a letter, number, punctuation mark or symbol.

    Combining marks look like the spacing accents, and styled letters (𝐀) like a letter of another face: both
    are left out.
    """
    styled = unicodedata.decomposition(character).startswith("<font>")
    return unicodedata.category(character)[0] in "LNPS" and not styled


def _mapped(path: Path) -> list[str]:
    from fontTools.ttLib import TTFont  # type: ignore[import-untyped]  # comes with matplotlib

    with TTFont(path, lazy=True) as font:
        # A character mapped to glyph 0 (.notdef) would be drawn as an empty box.
        missing = font.getGlyphOrder()[0]
        return [chr(code) for code, glyph in sorted((font.getBestCmap() or {}).items()) if glyph != missing]


def _ink(font: ImageFont.FreeTypeFont, character: str) -> tuple[Pixels, int]:
    """Return the picture without its empty border, and its top row relative to the baseline."""
    canvas = Image.new("L", (8 * POINTS, 8 * POINTS))
    ImageDraw.Draw(canvas).text((3 * POINTS, 5 * POINTS), character, fill=255, font=font, anchor="ls")
    box = canvas.getbbox()
    if box is None:
        return np.zeros((0, 0), np.uint8), 0
    return np.asarray(canvas.crop(box)), box[1] - 5 * POINTS
