"""Draw some images of some classes on one sheet, to look at a data set.

Legend: k classes, m images of a class.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from dmltune.data.images import ImageSet, Ints, Pixels, to_pil
from dmltune.errors import UserError, printable

TILE, GAP, LINE = 112, 6, 18  # pixels
GROUND, INK, EMPTY = (255, 255, 255), (40, 40, 40), (238, 238, 238)


def draw(images: ImageSet, file: Path, classes: int = 10, per_class: int = 8) -> list[str]:
    """Write the sheet as PNG, with evenly spaced classes and evenly spaced images of each.

    Returns the names of the classes on it.
    """
    if file.suffix.lower() != ".png":
        raise UserError(f"a contact sheet is a PNG file; got {file}. Name it {file.with_suffix('.png')}.")
    labels = spread(images.num_classes, classes)
    members_of = [np.flatnonzero(images.labels_N == label) for label in labels]
    chosen = [members[spread(len(members), per_class)] for members in members_of]
    width = max(map(len, chosen))
    sheet = Image.new("RGB", (GAP + width * (TILE + GAP), len(labels) * (LINE + TILE + GAP) + GAP), GROUND)
    from matplotlib import get_data_path  # its font has more scripts than Pillow's

    font = ImageFont.truetype(Path(get_data_path(), "fonts", "ttf", "DejaVuSans.ttf"), 12)
    pen = ImageDraw.Draw(sheet)
    for row, (label, members) in enumerate(zip(labels, chosen, strict=True)):
        top = GAP + row * (LINE + TILE + GAP)
        pen.text((GAP, top), _name(images, int(label), members, sheet.width, font), INK, font)
        for column, image_HWC in enumerate(images.read(members, TILE)):
            sheet.paste(_tile(image_HWC), (GAP + column * (TILE + GAP), top + LINE))
    try:
        sheet.save(file, format="PNG")
    except OSError as error:
        raise UserError(
            f"{file} cannot be written ({error.strerror or error}); choose another --out."
        ) from error
    return [images.class_names[label] for label in labels]


def spread(total: int, count: int) -> Ints:
    """Return up to `count` evenly spaced numbers of 0 … total − 1, beginning with 0."""
    few = min(total, count)
    return np.arange(few, dtype=np.int64) * total // max(few, 1)


def _tile(image_HWC: Pixels) -> Image.Image:
    """Return the whole image in a square; a small one is enlarged by a whole number."""
    image = to_pil(image_HWC).convert("RGB")
    longer = max(image.size)
    if longer <= TILE // 2:
        size = (image.width * (TILE // longer), image.height * (TILE // longer))
        image = image.resize(size, Image.Resampling.NEAREST)
    else:
        image.thumbnail((TILE, TILE), Image.Resampling.BICUBIC)
    tile = Image.new("RGB", (TILE, TILE), EMPTY)
    tile.paste(image, ((TILE - image.width) // 2, (TILE - image.height) // 2))
    return tile


def _name(images: ImageSet, label: int, members: Ints, width: int, font: ImageFont.FreeTypeFont) -> str:
    """Return `012.Yellow_headed_Blackbird · birds (56)`, shortened to what fits."""
    name = printable(images.class_names[label])  # the font has no control characters
    if images.category_N is not None and images.category_N[members[0]] >= 0:
        name += f" · {images.category_names[images.category_N[members[0]]]}"
    count = f"  ({int((images.labels_N == label).sum())})"
    if font.getlength(name + count) <= width - 2 * GAP:
        return name + count
    while len(name) > 1 and font.getlength(f"{name}…{count}") > width - 2 * GAP:
        name = name[:-1]
    return f"{name}…{count}"
