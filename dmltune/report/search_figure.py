"""A search as one picture: every trial's score and the best so far, then the score over each parameter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dmltune.report import formatting
from dmltune.report.summary import rows_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dmltune.search.state import SearchResult, SearchState, TrialRecord

MOST_PARAMETERS = 4
MARKERS = {"reference": ("*", 130.0), "baseline": ("s", 48.0), "search": ("o", 32.0)}
LABELS = {"reference": "reference point", "baseline": "baseline", "search": "searched"}
COLOURS = {"reference": "#d95f02", "baseline": "#555555", "search": "#1f77b4"}


def draw(search: SearchState | SearchResult, path: Path) -> Path:
    """Writes .png or .svg by the ending of `path`. Pruned trials are hollow; failed ones have no score."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = [row for row in rows_of(search.rows) if row.best is not None and math.isfinite(row.best)]
    keys = varied(rows)[:MOST_PARAMETERS]
    figure = Figure(figsize=(3.6 + 2.0 * len(keys), 3.2), layout="constrained", dpi=150)
    FigureCanvasAgg(figure)
    axes: Sequence[Axes] = figure.subplots(
        1, 1 + len(keys), sharey=True, squeeze=False, width_ratios=[1.5, *([1.0] * len(keys))]
    )[0]
    metric = formatting.metric_name(search.metric)
    history(axes[0], rows, search.mode, f"{metric} on validation classes, %")
    names = formatting.short_names(keys)
    for axis, key in zip(axes[1:], keys, strict=True):
        scatter(axis, [row for row in rows if key in row.values], key)
        axis.set_xlabel(names[key])
    if rows:
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, fontsize=8)
    figure.suptitle(f"{search.name} · {search.space_name}", fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    # The same search gives the same SVG: no date, no random names.
    with rc_context({"svg.hashsalt": "dmltune", "svg.fonttype": "path"}):
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    return path


def varied(rows: Sequence[TrialRecord]) -> list[str]:
    """The searched parameters that took more than one value."""
    keys = dict.fromkeys(key for row in rows if row.role != "baseline" for key in row.values)
    return [
        key
        for key in keys
        if len({str(row.values[key]) for row in rows if key in row.values and row.role != "baseline"}) > 1
    ]


def history(axis: Axes, rows: Sequence[TrialRecord], mode: str, label: str) -> None:
    """Every trial's best score, and the best of the complete ones so far as a staircase."""
    from matplotlib.ticker import MaxNLocator

    points(axis, [row.number for row in rows], rows)
    complete = [row for row in rows if row.state == "complete"]
    best = list(accumulate((score(row) for row in complete), max if mode == "max" else min))
    if complete:
        steps = [row.number for row in complete] + [rows[-1].number]
        axis.step(
            steps, [*best, best[-1]], where="post", color="#2ca02c", lw=1.2, zorder=1, label="best so far"
        )
    axis.set_xlabel("trial")
    axis.set_ylabel(label)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))


def scatter(axis: Axes, rows: Sequence[TrialRecord], key: str) -> None:
    """Score over one parameter; logarithmic when it spans one and a half decades; names for choices."""
    rows = [row for row in rows if row.role != "baseline"]
    values = [row.values[key] for row in rows]
    if all(is_number(value) for value in values):
        positive = all(value > 0 for value in values)
        if positive and max(values) >= 30 * min(values):
            axis.set_xscale("log")
        points(axis, [float(value) for value in values], rows)
        return
    choices = sorted({str(value) for value in values})
    points(axis, [float(choices.index(str(value))) for value in values], rows)
    axis.set_xticks(range(len(choices)), choices, fontsize=7, rotation=30)


def points(axis: Axes, x: Sequence[float], rows: Sequence[TrialRecord]) -> None:
    for role, (marker, size) in MARKERS.items():
        for complete in (True, False):
            chosen = [
                index
                for index, row in enumerate(rows)
                if row.role == role and (row.state == "complete") == complete
            ]
            if not chosen:
                continue
            axis.scatter(
                [x[index] for index in chosen],
                [score(rows[index]) for index in chosen],
                marker=marker,
                s=size,
                facecolors=COLOURS[role] if complete else "none",
                edgecolors=COLOURS[role],
                label=LABELS[role] if complete else f"{LABELS[role]}, stopped early",
                zorder=2,
            )


def score(row: TrialRecord) -> float:
    """Percent."""
    return 100 * float(row.best or 0.0)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
