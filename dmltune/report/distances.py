"""How far apart two images of one class and of two classes are, as one picture (figure 4 b of seed 001)."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor


def draw_distances(edges: Tensor, positive: Tensor, negative: Tensor, title: str, path: Path) -> Path:
    """Both histograms as shares of their pairs, so that the few positive ones can be seen."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.8, 3.0), layout="constrained", dpi=150)
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    for counts, label, colour in ((positive, "same class", "#1f77b4"), (negative, "other class", "#d95f02")):
        share = counts.double() / counts.sum().clamp(min=1)
        axis.stairs(share.numpy(), edges.numpy(), fill=True, alpha=0.5, color=colour, label=label)
    axis.set_xlabel("distance")
    axis.set_ylabel("share of pairs")
    axis.set_xlim(0, float(edges[-1]))
    axis.legend(fontsize=8)
    figure.suptitle(title, fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    return path
