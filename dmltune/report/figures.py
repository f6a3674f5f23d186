"""Figures as SVG inside a page, and the histograms of distances that pages and files share."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from dmltune.errors import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from torch import Tensor

WIDTH = 4.5  # inches; about the width of a phone
SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "dmltune",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.edgecolor": "#8a929c",
    "text.parse_math": False,  # a name may contain $
}


def svg(draw: Callable[[Figure], None], height: float, label: str) -> Markup:
    """Return the SVG element alone; the same drawing gives the same text. Screen readers read `label`."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    stream = io.StringIO()
    with rc_context(SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # browsers have others
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        draw(figure)
        figure.savefig(stream, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    text = stream.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text[text.index("<svg") :], flags=re.DOTALL)
    return Markup(re.sub(r"^<svg", f'<svg role="img" aria-label="{escape(label)}"', text))


def draw_distances(edges: Tensor, positive: Tensor, negative: Tensor, title: str, path: Path) -> Path:
    """Write the distances of pairs of one class and of two classes to `path` (figure 4 b of seed 001)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.8, 3.0), layout="constrained", dpi=150)
    axis = figure.subplots()
    stairs(axis, edges.tolist(), positive.tolist(), negative.tolist())
    axis.set_xlabel("distance")
    axis.set_ylabel("share of pairs")
    axis.set_xlim(0, float(edges[-1]))
    axis.legend(fontsize=8)
    figure.suptitle(printable(title), fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    return path


def stairs(axis: Axes, edges: Sequence[float], positive: Sequence[float], negative: Sequence[float]) -> None:
    """Draw both histograms as shares of their own pairs: there are far fewer pairs of one class."""
    for counts, label, colour in ((positive, "same class", "#1f77b4"), (negative, "other class", "#d95f02")):
        axis.stairs(shares(counts), edges, fill=True, alpha=0.45, color=colour, label=label)
        axis.stairs(shares(counts), edges, color=colour, lw=0.9)


def shares(counts: Sequence[float]) -> list[float]:
    """Return each count as a share of their sum."""
    total = sum(counts) or 1.0
    return [count / total for count in counts]
