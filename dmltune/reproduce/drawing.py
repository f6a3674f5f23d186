"""What the pictures of the figures share: size, colours, labels. matplotlib is imported when it is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dmltune.errors import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, RED, VIOLET, GREY = "#1f77b4", "#d95f02", "#2ca02c", "#c1272d", "#7b5ea7", "#555555"
COLOURS = (BLUE, ORANGE, GREEN, RED, VIOLET, GREY)


def canvas(
    columns: int, rows: int = 1, width: float = 4.2, height: float = 3.4, **options: Any
) -> tuple[Figure, Sequence[Sequence[Axes]]]:
    """Return a figure and its axes, [row][column]; `options` are those of Figure.subplots."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained", dpi=150)
    axes: Sequence[Sequence[Axes]] = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, axes


def save(figure: Figure, path: Path, title: str = "") -> Path:
    """Write the PNG and return its path."""
    if title:
        figure.suptitle(printable(title), fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    return path


def mean_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean, and the standard deviation over seeds (0 for one)."""
    import statistics

    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def powers_of_two(axis: Axes, ticks: Sequence[float]) -> None:
    """Make the x axis logarithmic, with these ticks alone."""
    axis.set_xscale("log", base=2)
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()


def heat_map(
    axis: Axes,
    values: Mapping[tuple[int, int], float],
    rows: Sequence[str],
    columns: Sequence[str],
) -> None:
    """Draw (row, column) → share as coloured cells with the number in percent; missing cells stay white."""
    grid = [
        [100 * values.get((row, column), float("nan")) for column in range(len(columns))]
        for row in range(len(rows))
    ]
    known = sorted(100 * value for value in values.values())
    middle = (known[0] + known[-1]) / 2
    axis.imshow(grid, cmap="viridis", aspect="auto", origin="lower")
    for (row, column), value in values.items():
        colour = "black" if 100 * value > middle else "white"
        axis.text(column, row, f"{100 * value:.1f}", ha="center", va="center", color=colour, fontsize=8)
    axis.set_xticks(range(len(columns)), columns)
    axis.set_yticks(range(len(rows)), rows)
