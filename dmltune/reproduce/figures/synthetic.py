"""The synthetic study (§5.3.1): tokens and samples in the plane under average and generalized sum pooling.

The settings are those of reproduce/synthetic.py. It takes a minute or two on one core.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dmltune.core.threads import torch_threads
from dmltune.reproduce import synthetic
from dmltune.reproduce.drawing import canvas, mean_and_spread, save
from dmltune.reproduce.request import FigureRequest
from dmltune.reproduce.study import FigureResult, FigureStudy, FigureTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLES = {"gap": "average pooling", "gsp": "generalized sum pooling"}
TINY_STEPS = 20
COLUMNS = ("pooling", "MAP@R %", "sd %", "in foreign hulls %", "pairs that overlap", "steps")


def run(request: FigureRequest) -> FigureResult:
    limit = TINY_STEPS if request.tiny else synthetic.MAX_STEPS
    outcomes: dict[str, list[synthetic.SyntheticResult]] = {pooling: [] for pooling in request.rows}
    with torch_threads(1):  # a step takes a millisecond or two
        for seed in range(request.seeds):
            for pooling in request.rows:
                outcome = synthetic.train(pooling, seed, limit)
                outcomes[pooling].append(outcome)
                request.log(
                    f"{pooling}, seed {seed}: MAP@R {100 * outcome.map_at_r:.1f} %, "
                    f"{outcome.overlapping_hulls} pairs of hulls overlap, {outcome.steps} steps"
                )
    table = FigureTable("", COLUMNS, [_row(pooling, each) for pooling, each in outcomes.items()])
    first = [each[0] for each in outcomes.values()]
    picture = draw_spaces(first, request.folder / "synthetic.png")
    return FigureResult([table], [picture], answers(outcomes))


def _row(pooling: str, outcomes: Sequence[synthetic.SyntheticResult]) -> list[float | str]:
    return [
        pooling,
        *mean_and_spread([outcome.map_at_r for outcome in outcomes]),
        statistics.fmean([outcome.points_in_foreign_hulls for outcome in outcomes]),
        " ".join(str(outcome.overlapping_hulls) for outcome in outcomes),
        " ".join(str(outcome.steps) for outcome in outcomes),
    ]


def answers(outcomes: dict[str, list[synthetic.SyntheticResult]]) -> list[str]:
    if len(outcomes) < 2:
        return []
    gap, gsp = (statistics.fmean([each.map_at_r for each in outcomes[name]]) for name in synthetic.POOLINGS)
    apart = "overlap" if outcomes["gsp"][0].overlapping_hulls else "do not overlap"
    return [
        f"GSP − GAP: {100 * (gsp - gap):+.1f} points (the thesis: about 70).",
        f"In the picture (seed 0) the class hulls of GSP {apart}.",
    ]


def draw_spaces(outcomes: Sequence[synthetic.SyntheticResult], path: Path) -> Path:
    """Draw tokens, validation samples, hulls of classes and prototypes for each pooling."""
    figure, axes = canvas(len(outcomes), width=4.6, height=5.0, sharex=True, sharey=True)
    for axis, outcome in zip(axes[0], outcomes, strict=True):
        _space(axis, outcome)
    figure.legend(*axes[0][-1].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    return save(figure, path)


def _space(axis: Axes, outcome: synthetic.SyntheticResult) -> None:
    from matplotlib import colormaps
    from scipy.spatial import ConvexHull  # comes with scikit-learn

    colours = colormaps["tab20"].colors  # type: ignore[attr-defined]
    own = outcome.tokens_TD[: synthetic.TOKENS_EACH * synthetic.CLASSES].numpy()
    for label in range(synthetic.CLASSES):
        points = outcome.emb_ND[outcome.labels_N == label].numpy()
        corners = points[ConvexHull(points, qhull_options="QJ").vertices]
        axis.fill(*corners.T, color=colours[label], alpha=0.35, lw=1.0)
        names = (None, None) if label else ("samples", "tokens of a class")
        axis.scatter(points[:, 0], points[:, 1], color=[colours[label]], s=5, lw=0, label=names[0])
        tokens = own[synthetic.TOKENS_EACH * label : synthetic.TOKENS_EACH * (label + 1)]
        axis.scatter(
            tokens[:, 0], tokens[:, 1], color=[colours[label]], marker="^", s=28, edgecolors="black", lw=0.4,
            label=names[1],
        )  # fmt: skip
    shared = outcome.tokens_TD[synthetic.TOKENS_EACH * synthetic.CLASSES :].numpy()
    axis.scatter(shared[:, 0], shared[:, 1], color="black", marker="X", s=48, label="shared tokens", zorder=3)
    if outcome.prototypes_MD is not None:
        prototypes = outcome.prototypes_MD.numpy()
        axis.scatter(
            prototypes[:, 0], prototypes[:, 1], color="red", marker="+", s=30, lw=0.9, label="prototypes",
            zorder=3,
        )  # fmt: skip
    axis.set_aspect("equal")
    axis.set_xlim(-synthetic.BOUND * 1.08, synthetic.BOUND * 1.08)
    axis.set_ylim(-synthetic.BOUND * 1.08, synthetic.BOUND * 1.08)
    axis.set_title(
        f"{TITLES[outcome.pooling]}: MAP@R {100 * outcome.map_at_r:.1f} %,"
        f" {outcome.overlapping_hulls} pairs of hulls overlap",
        fontsize=9,
    )


STUDY = FigureStudy(
    about="Samples of own and shared tokens in the plane: average pooling against GSP",
    source="thesis, §5.3.1",
    run=run,
    seeds=3,
    rows=synthetic.POOLINGS,
)
