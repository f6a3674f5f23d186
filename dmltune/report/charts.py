"""Figures of a page as Vega-Lite specifications: drawn by the browser, written as PNG, PDF or SVG without.

A specification is plain data. The colours of text, axes and grids are those of the page's light or dark theme
(templates/charts.js); marks have colours that are told apart on both, by people with any colour vision.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from markupsafe import Markup

from dmltune.errors import UserError, printable

Spec = dict[str, Any]

VERSION = "6.4"  # of Vega-Lite
FORMATS = ("png", "pdf", "svg")
LOG_LABEL = "format(datum.value, datum.value < 0.001 || datum.value >= 1e5 ? '~e' : '~g')"
MANY = 1500  # marks; more are drawn on a canvas, which is quicker than SVG
# Okabe and Ito's colours
BLUE, SKY, GREEN, YELLOW = "#0072B2", "#56B4E9", "#009E73", "#E69F00"
ORANGE, PINK, GREY = "#D55E00", "#CC79A7", "#8f98a3"
PRINTED: Spec = {  # of files: black on white
    "background": "white",
    "view": {"stroke": None},
    "axis": {"gridColor": "#e4e7eb", "domainColor": "#8a929c", "tickColor": "#8a929c"},
    "font": "Arial, Liberation Sans, DejaVu Sans, sans-serif",
}


@dataclass(frozen=True)
class Chart:
    """One figure. `alt` says what it shows to those who do not see it, `caption` how to read it."""

    name: str  # of its file
    alt: str
    caption: str
    spec: Spec = field(repr=False)
    wide: bool = False

    @property
    def data(self) -> Markup:
        """The specification for a script element: no text in it can end the element."""
        options = {"renderer": "canvas" if self._marks() > MANY else "svg"}
        whole = {**self.spec, "description": self.alt, "usermeta": {"embedOptions": options}}
        return Markup(json_text(whole))

    def _marks(self) -> int:
        parts = [self.spec, *self.spec.get("layer", ())]
        return sum(len(part.get("data", {}).get("values", ())) for part in parts)


def json_text(value: Any) -> str:
    """Return JSON in ASCII that may stand in a script element; NaN is an error."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def layered(values: Sequence[Mapping[str, Any]], height: int, *layers: Spec, **more: Any) -> Spec:
    """Return layers that share data and fill the width of the page."""
    own: Spec = {"data": {"values": list(values)}} if values else {}
    return {"width": "container", "height": height, **own, "layer": list(layers), **more}


def quantity(name: str, title: str | None, **more: Any) -> Spec:
    """Return a numeric channel whose axis need not begin at 0."""
    scale = {"zero": False, **more.pop("scale", {})}
    if scale.get("type") == "log":
        del scale["zero"]
        more["axis"] = {"labelExpr": LOG_LABEL, "labelOverlap": True, **more.get("axis", {})}
    return {"field": name, "type": "quantitative", "title": title, "scale": scale, **more}


def decades(low: float, high: float) -> Spec:
    """Return the ticks of a logarithmic axis: powers of ten where there are two, else the browser's."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    values = [float(f"1e{power}") for power in range(first, last + 1)]
    return {"values": values} if len(values) > 1 else {"tickCount": 5}


def nominal(name: str, title: str | None = None, **more: Any) -> Spec:
    return {"field": name, "type": "nominal", "title": title, **more}


def tooltip(*fields: tuple[str, str]) -> list[Spec]:
    """Return the lines of a tooltip: (field, title)."""
    return [{"field": name, "title": title} for name, title in fields]


def coloured(name: str, colours: Mapping[str, str], title: str | None = None, **more: Any) -> Spec:
    """Return the colour channel of names with fixed colours."""
    scale = {"domain": list(colours), "range": list(colours.values())}
    return nominal(name, title, scale=scale, **more)


def text_of(name: Any) -> str:
    """Return a name for a chart: control characters escaped."""
    return printable(str(name))


@cache
def library(version: str = VERSION) -> Markup:
    """Return Vega, Vega-Lite and Vega-Embed as one script, from a cache: joining them takes seconds."""
    import vl_convert

    folder = os.environ.get("DMLTUNE_CACHE") or Path.home() / ".cache" / "dmltune"
    file = Path(folder).expanduser() / f"vega-{metadata.version('vl-convert-python')}-{version}.js"
    try:
        return Markup(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        joined = vl_convert.javascript_bundle(vl_version=version)  # type: ignore[call-arg]
        text = joined.replace("</script", "<\\/script")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False, encoding="utf-8") as new:
            new.write(text)
        Path(new.name).replace(file)
    except OSError:
        pass  # a read-only cache: the next page joins them again
    return Markup(text)


def write_charts(charts: Iterable[Chart], folder: Path) -> list[Path]:
    """Write each figure as PNG, PDF and SVG into `folder`."""
    import vl_convert

    writers = {
        "png": lambda spec: vl_convert.vegalite_to_png(spec, vl_version=VERSION, config=PRINTED, scale=2),
        "pdf": lambda spec: vl_convert.vegalite_to_pdf(spec, vl_version=VERSION, config=PRINTED),
        "svg": lambda spec: vl_convert.vegalite_to_svg(spec, vl_version=VERSION, config=PRINTED).encode(),
    }
    files = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for chart in charts:
            spec = json.dumps({**chart.spec, "width": 640 if chart.wide else 420})
            for ending in FORMATS:
                files.append(folder / f"{chart.name}.{ending}")
                files[-1].write_bytes(writers[ending](spec))
    except OSError as error:
        raise UserError(
            f"figures cannot be written to {folder} ({error.strerror}). Choose another folder."
        ) from None
    return files
