"""The synthetic study as one tracked run: the means, and the token space under both poolings."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dmltune.core.threads import torch_threads
from dmltune.provenance import version_tags
from dmltune.reproduce import synthetic
from dmltune.runs import TrackedRun, closed_on_error
from dmltune.store import Store, validated_name
from dmltune.tracking import Tracker

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLES = {"gap": "average pooling", "gsp": "generalized sum pooling"}


@dataclass(frozen=True)
class SyntheticRow:
    """One pooling: means over the seeds as fractions; tuples have an entry for each seed."""

    pooling: str
    map_at_r: float
    std: float
    points_in_foreign_hulls: float
    overlapping_hulls: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True)
class SyntheticStudy:
    name: str
    rows: tuple[SyntheticRow, ...]
    difference: float  # MAP@R of GSP − that of GAP
    drawn_seed: int
    drawn_overlapping_hulls: int  # of GSP, pairs of classes
    picture: Path


def run_synthetic(
    *,
    name: str = "synthetic",
    seeds: int = 3,
    steps: int | None = None,
    store: Store | None = None,
    log: Callable[[str], None] = lambda text: None,
) -> SyntheticStudy:
    """Run the study, a minute or two on one core; the same name runs it again."""
    store, limit = store or Store.at(), synthetic.MAX_STEPS if steps is None else steps
    folder = store.search_folder(validated_name(name))
    tracker = Tracker(store)
    tracker.close_stale()
    settings = {
        "seeds": seeds, "max_steps": limit, "dim": synthetic.DIM, "bound": synthetic.BOUND,
        "lr": synthetic.LEARNING_RATE, "patience": synthetic.PATIENCE, "loss.neg_margin": synthetic.MARGIN,
        "gsp.prototypes": synthetic.PROTOTYPES, "gsp.mu": synthetic.MU, "gsp.epsilon": synthetic.EPSILON,
    }  # fmt: skip
    experiment_id = tracker.experiment("synthetic")
    run = TrackedRun.open(
        tracker, experiment_id, name, role="reproduction", params=settings, about=version_tags()
    )
    outcomes: list[synthetic.SyntheticResult] = []
    with closed_on_error(run.interrupt), torch_threads(1):  # a step takes a millisecond or two
        for seed, pooling in itertools.product(range(seeds), synthetic.POOLINGS):
            outcome = synthetic.train(pooling, seed, limit)
            outcomes.append(outcome)
            log(
                f"{outcome.pooling}, seed {outcome.seed}: MAP@R {100 * outcome.map_at_r:.1f} %, "
                f"{outcome.overlapping_hulls} pairs of hulls overlap, {outcome.steps} steps"
            )
            figures = ("map_at_r", "points_in_foreign_hulls", "overlapping_hulls")
            metrics = {f"{key}.{outcome.pooling}": float(getattr(outcome, key)) for key in figures}
            tracker.log(run.run_id, outcome.seed, metrics)
        drawn = [outcome for outcome in outcomes if outcome.seed == 0]
        folder.mkdir(parents=True, exist_ok=True)
        picture = draw_spaces(drawn, folder / "synthetic.png")
        tracker.log_file(run.run_id, picture)
    run.end("complete")
    rows = tuple(
        _row([each for each in outcomes if each.pooling == pooling]) for pooling in synthetic.POOLINGS
    )
    score = {row.pooling: row.map_at_r for row in rows}
    hulls = next(outcome.overlapping_hulls for outcome in drawn if outcome.pooling == "gsp")
    return SyntheticStudy(name, rows, score["gsp"] - score["gap"], 0, hulls, picture)


def _row(outcomes: Sequence[synthetic.SyntheticResult]) -> SyntheticRow:
    scores = [outcome.map_at_r for outcome in outcomes]
    return SyntheticRow(
        outcomes[0].pooling,
        statistics.fmean(scores),
        statistics.stdev(scores) if len(scores) > 1 else 0.0,
        statistics.fmean([outcome.points_in_foreign_hulls for outcome in outcomes]),
        tuple(outcome.overlapping_hulls for outcome in outcomes),
        tuple(outcome.steps for outcome in outcomes),
    )


def draw_spaces(outcomes: Sequence[synthetic.SyntheticResult], path: Path) -> Path:
    """Draw tokens, validation samples, hulls of classes and prototypes for each pooling."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6 * len(outcomes), 5.0), layout="constrained", dpi=150)
    grid: Sequence[Axes] = figure.subplots(1, len(outcomes), sharex=True, sharey=True, squeeze=False)[0]
    for axis, outcome in zip(grid, outcomes, strict=True):
        _space(axis, outcome)
    figure.legend(*grid[-1].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    figure.savefig(path)
    return path


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
