"""A search as one figure: every trial's score and the best so far, then the score over each parameter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dmltune.errors import printable
from dmltune.report import formatting
from dmltune.report.front_table import draw_front

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dmltune.search.state import SearchResult, TrialRecord

MOST_PARAMETERS, COLUMNS = 12, 4
MARKERS = {
    "reference": ("*", 130.0),
    "baseline": ("s", 48.0),
    "repeat": ("x", 32.0),
    "cheap": ("v", 14.0),
    "search": ("o", 32.0),
}
LABELS = {
    "reference": "reference point",
    "baseline": "baseline",
    "repeat": "repetition, another seed",
    "cheap": "cheap trial",
    "search": "trial",
}
COLOURS = {
    "reference": "#d95f02",
    "baseline": "#555555",
    "repeat": "#7570b3",
    "cheap": "#a6cee3",
    "search": "#1f77b4",
}
POINTS = ("reference", "search")  # the roles of points of the space
# The same search gives the same SVG: no random names. A name may contain $.
SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "dmltune",
    "svg.fonttype": "path",
    "text.parse_math": False,
}


def draw(search: SearchResult, path: Path) -> Path:
    """Write .png or .svg by the ending of `path`. Pruned trials are hollow; failed ones have no score."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    scored = [record for record in search.rows if record.best is not None and math.isfinite(record.best)]
    rows = sorted(scored, key=lambda record: record.number)
    costs = list(search.front.against) if search.front else []
    keys = [*costs, *varied(rows)][:MOST_PARAMETERS]
    metric = formatting.metric_name(search.metric)
    names = formatting.short_names(keys) | {name: formatting.COSTS[name][1] for name in costs}
    path.parent.mkdir(parents=True, exist_ok=True)
    with rc_context(SETTINGS):
        columns, lines = min(COLUMNS, len(keys)), max(1, math.ceil(len(keys) / COLUMNS))
        figure = Figure(figsize=(3.6 + 2.0 * columns, 0.6 + 2.6 * lines), layout="constrained", dpi=150)
        grid = figure.add_gridspec(lines, 1 + columns, width_ratios=[1.5, *([1.0] * columns)])
        first: Axes = figure.add_subplot(grid[:, 0])
        history(first, rows, search.mode, f"{metric} on validation classes, %")
        for place, key in enumerate(keys):
            axis = figure.add_subplot(grid[place // COLUMNS, 1 + place % COLUMNS], sharey=first)
            axis.tick_params(labelleft=lines > 1 and place % COLUMNS == 0)
            scatter(axis, [record for record in rows if key in record.values or key in record.costs], key)
            if search.front and key in costs:
                draw_front(axis, search.front, key)
            axis.set_xlabel(names[key])
        if rows:
            handles = first.get_legend_handles_labels()
            figure.legend(*handles, loc="outside lower center", ncols=6, fontsize=8)
        figure.suptitle(printable(f"{search.name} · {search.space_name}"), fontsize=10)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    return path


def varied(rows: Sequence[TrialRecord]) -> list[str]:
    """Return the parameters that took more than one value in points of the space."""
    values: dict[str, set[str]] = {}
    for record in rows:
        if record.role in POINTS:
            for key, item in record.values.items():
                values.setdefault(key, set()).add(str(item))
    return [key for key, items in values.items() if len(items) > 1]


def history(axis: Axes, rows: Sequence[TrialRecord], mode: str, label: str) -> None:
    """Draw every trial's best score, and the best of the complete ones so far as a staircase."""
    from matplotlib.ticker import MaxNLocator

    points(axis, [record.number for record in rows], rows)
    complete = [
        record for record in rows if record.state == "complete" and record.role not in ("repeat", "cheap")
    ]
    if complete:
        best = list(accumulate((score(record) for record in complete), max if mode == "max" else min))
        steps = [record.number for record in complete] + [rows[-1].number]
        best.append(best[-1])
        axis.step(steps, best, where="post", color="#2ca02c", lw=1.2, zorder=1, label="best so far")
    axis.set_xlabel("trial")
    axis.set_ylabel(label)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))


def scatter(axis: Axes, rows: Sequence[TrialRecord], key: str) -> None:
    """Draw the score over a parameter: names for choices, a logarithmic axis from a factor of 30.

    A cost is drawn like a parameter, and the baseline has one too.
    """
    rows = [record for record in rows if record.role in (*POINTS, *["baseline"] * (key in record.costs))]
    values: list[Any] = [record.costs[key] if key in record.costs else record.values[key] for record in rows]
    if all(isinstance(item, int | float) and not isinstance(item, bool) for item in values):
        if min(values) > 0 and max(values) >= 30 * min(values):
            axis.set_xscale("log")
            axis.xaxis.set_major_formatter("{x:g}")  # 10^k would be mathematics, which names with $ forbid
            axis.xaxis.set_minor_formatter("")
        points(axis, [float(item) for item in values], rows)
        return
    choices = sorted({formatting.value(item) for item in values})
    points(axis, [float(choices.index(formatting.value(item))) for item in values], rows)
    axis.set_xticks(range(len(choices)), choices, fontsize=7, rotation=30)


def points(axis: Axes, x: Sequence[float], rows: Sequence[TrialRecord]) -> None:
    """Draw a marker for each trial by its role; hollow when it is not complete."""
    for role, (marker, size) in MARKERS.items():
        for complete in (True, False):
            chosen = [
                (at, score(record))
                for at, record in zip(x, rows, strict=True)
                if record.role == role and (record.state == "complete") == complete
            ]
            if chosen:
                places, scores = zip(*chosen, strict=True)
                label = LABELS[role] if complete else f"{LABELS[role]}, stopped early"
                drawn = axis.scatter(places, scores, s=size, marker=marker, label=label, zorder=2)
                drawn.set_color(COLOURS[role])
                if not complete:
                    drawn.set_facecolor("none")


def score(record: TrialRecord) -> float:
    """Return the best score in percent."""
    return 100 * float(record.best or 0.0)
