"""Stored weights and prototypes of generalized sum pooling (train/page_attention.py) as figures of a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dmltune.errors import printable
from dmltune.report import charts
from dmltune.report.charts import BLUE, Chart, Spec
from dmltune.report.gallery_page import PICTURE

SIDE = 74  # of a picture in the figure's file


def attention_of(gallery: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return what is stored, for the template; None for another pooling, or what cannot be shown."""
    found = (gallery or {}).get("attention")
    if not isinstance(found, Mapping):
        return None
    try:
        pictures = [str(row[key]) for row in found["images"] for key in ("image", "weights")]
        rows, columns = len(found["classes"]), len(found["prototypes"])
        fits = len(found["shares"]) == rows and all(len(row) == columns for row in found["shares"])
        facts = all(isinstance(found[key], int | float) for key in ("mu", "epsilon", "of", "rest"))
    except (KeyError, TypeError):
        return None
    return found if facts and fits and pictures and all(map(PICTURE.fullmatch, pictures)) else None


def weights_chart(gallery: Mapping[str, Any] | None) -> Chart | None:
    """Images above, their weights below: the pictures of the page as a figure for files."""
    found = attention_of(gallery)
    if found is None:
        return None
    values = [
        {"at": place, "row": name, "class": printable(str(row["class"])), "url": row[key]}
        for place, row in enumerate(found["images"])
        for key, name in (("image", "image"), ("weights", "weights"))
    ]
    encoding: Spec = {
        "x": {"field": "at", "type": "ordinal", "axis": None},
        "y": charts.nominal("row", sort=["image", "weights"], axis={"title": None, "domain": False}),
        "url": {"field": "url"},
    }
    layer = {"mark": {"type": "image", "width": SIDE, "height": SIDE}, "encoding": encoding}
    return Chart("attention", alt_text(found), caption(found), charts.layered(values, 170, layer), wide=True)


def alt_text(found: Mapping[str, Any]) -> str:
    halves = ", ".join(f"{printable(str(row['class']))} {100 * row['half']:.0f} %" for row in found["images"])
    return f"Pooling weights over {len(found['images'])} images; half of the weight lies on: {halves}"


def caption(found: Mapping[str, Any]) -> str:
    usual = sorted(row["half"] for row in found["images"])[len(found["images"]) // 2]
    return (
        f"Weights of generalized sum pooling (μ = {found['mu']:.3g}, ε = {found['epsilon']:.3g}): yellow "
        f"positions are pooled, dark ones are left out. Half of the weight lies on {100 * usual:.0f} % of "
        "the positions of a usual image; average pooling would need 50 %."
    )


def prototypes(gallery: Mapping[str, Any] | None) -> Chart | None:
    """Classes by prototypes: how much of the images of a class is assigned to each."""
    found = attention_of(gallery)
    if found is None or not found["prototypes"]:
        return None
    names = [printable(str(name)) for name in found["classes"]]
    values = [
        {"class": name, "prototype": str(number), "share": round(100 * share, 2)}
        for name, row in zip(names, found["shares"], strict=True)
        for number, share in zip(found["prototypes"], row, strict=True)
    ]
    order = [str(number) for number in found["prototypes"]]
    shown = f"{len(order)} of {found['of']}" if len(order) < found["of"] else str(len(order))
    encoding: Spec = {
        "x": charts.nominal(
            "prototype", "prototype", sort=order, axis={"labels": False, "ticks": False, "labelAngle": 0}
        ),
        "y": charts.nominal("class", sort=names, axis={"title": None, "labelLimit": 110}),
        "color": {
            "field": "share",
            "type": "quantitative",
            "title": "share %",
            "scale": {"range": ["rgba(0, 114, 178, 0.04)", BLUE], "zero": True},
        },
        "tooltip": charts.tooltip(("class", "class"), ("prototype", "prototype"), ("share", "share %")),
    }
    rest = f" The others hold {100 * found['rest']:.0f} %." if found["rest"] >= 0.005 else ""
    text = (
        f"Each row is a class's histogram of {shown} prototypes: the share of the pooled features that is "
        f"assigned to each, the mean pseudo-attributes of the zero-shot loss.{rest} Classes that share "
        "strong columns consist of the same parts."
    )
    alt = f"Histograms of {shown} prototypes for {len(names)} classes that were not trained on"
    layer = {"mark": "rect", "encoding": encoding}
    return Chart("prototypes", alt, text, charts.layered(values, 24 * len(names) + 20, layer), wide=True)
