"""A stored gallery (train/page_gallery.py) on a page: its map as a figure, its rows for the template."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dmltune.errors import printable
from dmltune.report import charts, distance_charts
from dmltune.report.charts import BLUE, ORANGE, Chart, Spec
from dmltune.report.distance_charts import StoredHistogram

Stored = Mapping[str, Any]

PICTURE = re.compile(r"data:image/(png|jpeg);base64,[A-Za-z0-9+/=]+")


def gallery_of(stored: Stored | None) -> dict[str, Any] | None:
    """Return the rows with addresses in place of numbers; None for a gallery that cannot be shown."""
    if not stored or not stored.get("rows"):
        return None
    large = stored["large"]

    def picture(number: int) -> str:
        address = str(large[number])
        if PICTURE.fullmatch(address) is None:
            raise ValueError(f"no picture: {address[:40]}")
        return address

    try:
        rows = [
            {**row, "image": picture(row["image"]), "neighbours": [
                {**each, "image": picture(each["image"])} for each in row["neighbours"]]}
            for row in stored["rows"]
        ]  # fmt: skip
        pairs = [
            {**row, "taken_for": row["as"], "pairs": [[picture(n) for n in pair] for pair in row["pairs"]]}
            for row in stored["confusions"]
        ]
        return {**{key: stored[key] for key in ("split", "model", "images", "classes", "queries", "right")},
                "rows": rows, "confusions": pairs}  # fmt: skip
    except (KeyError, IndexError, TypeError, ValueError):
        return None


def distances(stored: Stored | None) -> list[Chart]:
    """Return the distances of pairs before the first step and of the stored model."""
    found = (stored or {}).get("distances")
    if not isinstance(found, Mapping):
        return []
    try:
        named = {"before training": found["before"], str((stored or {})["model"]): found["after"]}
        return distance_charts.histograms(
            {name: StoredHistogram(**counts) for name, counts in named.items()}
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError):
        return []


def embedding_map(stored: Stored | None) -> Chart | None:
    """Return the map: a point is an image, whose picture is shown when it is pointed at."""
    if not stored or not stored.get("points"):
        return None
    small = stored["small"]
    values = [
        {
            "x": point["x"],
            "y": point["y"],
            "class": printable(str(point["class"])),
            "nearest": "of its class" if point["right"] else "of another class",
            "image": small[point["image"]],
        }
        for point in stored["points"]
    ]
    near: Spec = {"param": "near", "empty": False}
    encoding: Spec = {
        "x": {"field": "x", "type": "quantitative", "axis": None, "scale": {"zero": False}},
        "y": {"field": "y", "type": "quantitative", "axis": None, "scale": {"zero": False}},
        "color": charts.coloured(
            "nearest", {"of its class": BLUE, "of another class": ORANGE}, "nearest neighbour"
        ),
        "size": {"condition": {**near, "value": 150}, "value": 42},
        "opacity": {"condition": {**near, "value": 1}, "value": 0.7},
        "tooltip": charts.tooltip(("image", "image"), ("class", "class"), ("nearest", "nearest")),
    }  # fmt: skip
    select = {"type": "point", "fields": ["class"], "on": "pointerover", "clear": "pointerout"}
    layer = {
        "params": [{"name": "near", "select": select}],
        "mark": {"type": "point", "filled": True},
        "encoding": encoding,
    }
    classes = len({row["class"] for row in values})
    caption = (
        f"t-SNE of {len(values)} images of {classes} classes that were not trained on. Pointing at one shows "
        "it, and all images of its class grow. Distances between far groups mean little in such a map."
    )
    alt = f"Map of the embeddings of {len(values)} images of {classes} classes"
    return Chart("map", alt, caption, charts.layered(values, 420, layer), wide=True)
