"""Pictures of validation queries with their neighbours, a file for each validation, for MLflow's image grid.

Q queries, K neighbours.
"""

from __future__ import annotations

import time
import uuid
from pathlib import Path

from PIL import Image, ImageDraw

from dmltune.core.example_neighbours import ExampleNeighbours
from dmltune.data.feed import ImageFeed
from dmltune.data.images import Pixels, to_pil

FOLDER, KEY = "images", "neighbours"
TILE, FRAME, GAP = 64, 3, 4  # pixels
GROUND, QUERY, RIGHT, WRONG = "#FFFFFF", "#777777", "#009E73", "#D55E00"


def draw_gallery(examples: ExampleNeighbours, feed: ImageFeed, folder: Path, step: int) -> None:
    """Write the sheet of one validation, and the small copy that MLflow shows first."""
    sheet = _sheet(examples, feed)
    place = folder / FOLDER
    place.mkdir(parents=True, exist_ok=True)
    for before in place.glob(f"{KEY}+step+{step}+*"):  # of a process that was killed
        before.unlink()
    name = f"{KEY}+step+{step}+timestamp+{int(time.time() * 1000)}+{uuid.uuid4()}"
    sheet.save(place / f"{name}.png")
    small = sheet.copy()
    small.thumbnail((256, 256))
    small.save(place / f"{name}+compressed.webp")


def _sheet(examples: ExampleNeighbours, feed: ImageFeed) -> Image.Image:
    """Return a row for each query: the query, then its neighbours, nearest first, framed by right or wrong.

    A wrong neighbour is crossed out too, for those who do not see the colours apart.
    """
    rows, columns = examples.neighbour_QK.shape
    cell = TILE + 2 * FRAME + GAP
    sheet = Image.new("RGB", (GAP + (columns + 1) * cell + 2 * GAP, GAP + rows * cell), GROUND)
    for row in range(rows):
        places = [int(examples.query_Q[row]), *examples.neighbour_QK[row].tolist()]
        for column, pixels in enumerate(feed.validation_pictures(places, TILE)):
            right = column == 0 or bool(examples.right_QK[row, column - 1])
            colour = QUERY if column == 0 else RIGHT if right else WRONG
            left = GAP + column * cell + (2 * GAP if column else 0)
            sheet.paste(_tile(pixels, colour, crossed=not right), (left, GAP + row * cell))
    return sheet


def _tile(pixels: Pixels, colour: str, crossed: bool) -> Image.Image:
    image = to_pil(pixels).convert("RGB")
    way = Image.Resampling.NEAREST if max(image.size) <= TILE // 2 else Image.Resampling.BILINEAR
    scale = TILE / max(image.size)
    image = image.resize((max(1, round(image.width * scale)), max(1, round(image.height * scale))), way)
    side = TILE + 2 * FRAME
    tile = Image.new("RGB", (side, side), colour)
    tile.paste(GROUND, (FRAME, FRAME, side - FRAME, side - FRAME))
    tile.paste(image, ((side - image.width) // 2, (side - image.height) // 2))
    if crossed:
        corner = side // 4
        ImageDraw.Draw(tile).line((side - corner, 0, side, corner), fill=colour, width=FRAME)
    return tile
