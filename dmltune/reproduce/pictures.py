"""Pictures of the studies: the token space under both poolings, and bars with a spread."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dmltune.reproduce.synthetic import BOUND, CLASSES, TOKENS_EACH, SyntheticResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLES = {"gap": "average pooling", "gsp": "generalized sum pooling"}
COLOUR, BASELINE_COLOUR = "#1f77b4", "#555555"


def draw_spaces(outcomes: Sequence[SyntheticResult], path: Path) -> Path:
    """Draw tokens, validation samples, hulls of classes and prototypes for each pooling."""
    figure = _figure(4.6 * len(outcomes), 5.0)
    grid: Sequence[Axes] = figure.subplots(1, len(outcomes), sharex=True, sharey=True, squeeze=False)[0]
    for axis, outcome in zip(grid, outcomes, strict=True):
        _space(axis, outcome)
    figure.legend(*grid[-1].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    return _saved(figure, path)


def _space(axis: Axes, outcome: SyntheticResult) -> None:
    from matplotlib import colormaps
    from scipy.spatial import ConvexHull  # comes with scikit-learn

    colours = colormaps["tab20"].colors  # type: ignore[attr-defined]
    own = outcome.tokens_TD[: TOKENS_EACH * CLASSES].numpy()
    for label in range(CLASSES):
        points = outcome.emb_ND[outcome.labels_N == label].numpy()
        corners = points[ConvexHull(points, qhull_options="QJ").vertices]
        axis.fill(*corners.T, color=colours[label], alpha=0.35, lw=1.0)
        names = (None, None) if label else ("samples", "tokens of a class")
        axis.scatter(points[:, 0], points[:, 1], color=[colours[label]], s=5, lw=0, label=names[0])
        tokens = own[TOKENS_EACH * label : TOKENS_EACH * (label + 1)]
        axis.scatter(
            tokens[:, 0], tokens[:, 1], color=[colours[label]], marker="^", s=28, edgecolors="black", lw=0.4,
            label=names[1],
        )  # fmt: skip
    shared = outcome.tokens_TD[TOKENS_EACH * CLASSES :].numpy()
    axis.scatter(shared[:, 0], shared[:, 1], color="black", marker="X", s=48, label="shared tokens", zorder=3)
    if outcome.prototypes_MD is not None:
        prototypes = outcome.prototypes_MD.numpy()
        axis.scatter(
            prototypes[:, 0], prototypes[:, 1], color="red", marker="+", s=30, lw=0.9, label="prototypes",
            zorder=3,
        )  # fmt: skip
    axis.set_aspect("equal")
    axis.set_xlim(-BOUND * 1.08, BOUND * 1.08)
    axis.set_ylim(-BOUND * 1.08, BOUND * 1.08)
    axis.set_title(
        f"{TITLES[outcome.pooling]}: MAP@R {100 * outcome.map_at_r:.1f} %,"
        f" {outcome.overlapping_hulls} pairs of hulls overlap",
        fontsize=9,
    )


def draw_bars(rows: Sequence[tuple[str, float, float]], baseline: str, title: str, path: Path) -> Path:
    """Draw (name, share, spread) as horizontal bars in percent, the first on top."""
    figure = _figure(6.4, 1.0 + 0.27 * len(rows))
    axis: Axes = figure.subplots()
    names = [name for name, _, _ in rows]
    axis.barh(
        range(len(rows)),
        [100 * value for _, value, _ in rows],
        xerr=[100 * spread for _, _, spread in rows],
        color=[BASELINE_COLOUR if name == baseline else COLOUR for name in names],
        error_kw={"lw": 0.9, "capsize": 2},
    )
    axis.set_yticks(range(len(rows)), names)
    axis.invert_yaxis()
    axis.set_xlabel("MAP@R, %  (mean and standard deviation over seeds)")
    axis.set_title(title, fontsize=10)
    return _saved(figure, path)


def _figure(width: float, height: float) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", dpi=150)
    FigureCanvasAgg(figure)
    return figure


def _saved(figure: Figure, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    return path
