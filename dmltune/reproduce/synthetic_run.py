"""The synthetic study as one tracked run with the means and the picture."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from dmltune.provenance import version_tags
from dmltune.reproduce.pictures import draw_spaces
from dmltune.reproduce.synthetic import (
    BOUND,
    DIM,
    EPSILON,
    LEARNING_RATE,
    MARGIN,
    MAX_STEPS,
    MU,
    PATIENCE,
    POOLINGS,
    PROTOTYPES,
    SyntheticResult,
    study,
)
from dmltune.runs import TrackedRun
from dmltune.store import Store, validated_name
from dmltune.tracking import Tracker


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
    store, limit = store or Store.at(), MAX_STEPS if steps is None else steps
    folder = store.search_folder(validated_name(name))
    tracker = Tracker(store)
    tracker.close_stale()
    settings = {
        "seeds": seeds, "max_steps": limit, "dim": DIM, "bound": BOUND, "lr": LEARNING_RATE,
        "patience": PATIENCE, "loss.neg_margin": MARGIN,
        "gsp.prototypes": PROTOTYPES, "gsp.mu": MU, "gsp.epsilon": EPSILON,
    }  # fmt: skip
    experiment_id = tracker.experiment("synthetic")
    run = TrackedRun.open(
        tracker, experiment_id, name, role="reproduction", params=settings, about=version_tags()
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # a step takes a millisecond or two
    try:
        outcomes = []
        for outcome in study(seeds, limit):
            outcomes.append(outcome)
            log(
                f"{outcome.pooling}, seed {outcome.seed}: MAP@R {100 * outcome.map_at_r:.1f} %, "
                f"{outcome.overlapping_hulls} pairs of hulls overlap, {outcome.steps} steps"
            )
            figures = ("map_at_r", "points_in_foreign_hulls", "overlapping_hulls")
            metrics = {f"{key}.{outcome.pooling}": float(getattr(outcome, key)) for key in figures}
            tracker.log(run.run_id, outcome.seed, metrics)
        drawn = [outcome for outcome in outcomes if outcome.seed == 0]
        picture = draw_spaces(drawn, folder / "synthetic.png")
        tracker.log_file(run.run_id, picture)
    except BaseException as error:
        run.interrupt(f"{type(error).__name__}: {error}".splitlines()[0])
        raise
    finally:
        torch.set_num_threads(threads)
    run.end("complete")
    rows = tuple(_row([each for each in outcomes if each.pooling == pooling]) for pooling in POOLINGS)
    score = {row.pooling: row.map_at_r for row in rows}
    hulls = next(outcome.overlapping_hulls for outcome in drawn if outcome.pooling == "gsp")
    return SyntheticStudy(name, rows, score["gsp"] - score["gap"], 0, hulls, picture)


def _row(outcomes: Sequence[SyntheticResult]) -> SyntheticRow:
    scores = [outcome.map_at_r for outcome in outcomes]
    return SyntheticRow(
        outcomes[0].pooling,
        statistics.fmean(scores),
        statistics.stdev(scores) if len(scores) > 1 else 0.0,
        statistics.fmean([outcome.points_in_foreign_hulls for outcome in outcomes]),
        tuple(outcome.overlapping_hulls for outcome in outcomes),
        tuple(outcome.steps for outcome in outcomes),
    )
