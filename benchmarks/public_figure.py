"""Draw the mean regret of searches against the share of the budget, with 95 % bands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from public_report import curves_of, in_common

Floats = NDArray[np.float64]


def mean_and_band(by_table: Mapping[str, Mapping[int, Floats]]) -> tuple[Floats, Floats]:
    """Return the mean over tables and half of its 95 % interval; the seeds of a table are the sample.

    The tables are fixed: Var = Σ_t s_t²/n_t / T².
    """
    curves_TSP = [np.array(list(seeds.values())) for seeds in by_table.values()]
    mean_P = np.mean([each.mean(axis=0) for each in curves_TSP], axis=0)
    several = [each for each in curves_TSP if len(each) > 1]
    variance_P = sum((each.var(axis=0, ddof=1) / len(each) for each in several), np.zeros_like(mean_P))
    return mean_P, 1.96 * np.sqrt(variance_P) / len(curves_TSP)


def draw(records: Sequence[Mapping[str, Any]], ours: str, path: Path) -> None:
    """Write one panel for each number of workers."""
    from matplotlib.figure import Figure

    workers = sorted({record["workers"] for record in records})
    figure = Figure(figsize=(5.2 * len(workers), 4), layout="constrained")
    panels = figure.subplots(1, len(workers), squeeze=False, sharey=True)[0]
    for panel, number in zip(panels, workers, strict=True):
        curves = in_common(curves_of([record for record in records if record["workers"] == number]))
        tables = set.intersection(*(set(each) for each in curves.values()))
        for method, by_table in curves.items():
            mean_P, half_P = mean_and_band({table: by_table[table] for table in sorted(tables)})
            budget_P = 40 * np.arange(1, len(mean_P) + 1) / len(mean_P)
            width = 2.5 if method == ours else 1.2
            (line,) = panel.plot(budget_P, mean_P, label=method, linewidth=width)
            panel.fill_between(budget_P, mean_P - half_P, mean_P + half_P, color=line.get_color(), alpha=0.15)
        panel.set_title(f"{number} workers, {len(tables)} tables")
        panel.set_xlabel("worker time (full trainings)")
    panels[0].set_ylabel("normalised regret")
    panels[-1].legend()
    figure.savefig(path)
