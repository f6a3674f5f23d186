"""The histograms of distances as a file, and the shares that pages draw too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dmltune.errors import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from torch import Tensor


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
