"""What earlier searches tell a new one: how their points ranked, and which were best.

Scores of another data set cannot be compared, ranks can. So a point of an earlier search counts as the normal
quantile of its rank, moved to the scores of the new search, with a wide error that its own trials outweigh.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from dmltune.errors import UserError
from dmltune.experiment.problems import Problem
from dmltune.experiment.space.search_space import SearchSpace
from dmltune.search.engine_trial import EngineTrial
from dmltune.search.extrapolation import final_estimates

if TYPE_CHECKING:
    from dmltune.search.study import Study
    from dmltune.store import Store

ATTRIBUTE = "earlier"  # of the study
MOST = 100  # points of one earlier search
STARTS = 2  # best points that the new search tries first
SPREAD = 1.0  # error of an earlier point, in standard deviations of the scores


@dataclass(frozen=True)
class EarlierPoint:
    """`quantile` is the normal quantile of its rank among the points of its search: high is good."""

    values: Mapping[str, Any]
    quantile: float


def stored_points(study: Study) -> list[EarlierPoint]:
    """Return what the search was started from."""
    return [EarlierPoint(**point) for point in json.loads(study.attribute(ATTRIBUTE, "[]"))]


def store_points(study: Study, points: Sequence[EarlierPoint]) -> None:
    study.set_attribute(ATTRIBUTE, json.dumps([asdict(point) for point in points]))


def points_of(store: Store, names: Sequence[str], space: SearchSpace) -> list[EarlierPoint]:
    """Return the points of these searches that are points of `space` too; none is a UserError."""
    from dmltune.experiment import Experiment  # a simulation needs neither these nor MLflow
    from dmltune.search.restoring import engine_trial_of
    from dmltune.search.study import Study
    from dmltune.tracking import Tracker

    tracker, found = Tracker(store), []
    for name in names:
        run = tracker.find(name)
        tree = None if run is None else tracker.read_json(run.info.run_id, "experiment.json")
        if not isinstance(tree, dict):
            raise tracker.unknown("search", name)
        experiment = Experiment.from_validated(tree)
        mode = experiment.objective.mode
        sign = 1 if mode == "max" else -1
        trials = Study(store, name, mode).trials()
        points = [engine_trial_of(trial, sign, experiment.seed, experiment.fold) for trial in trials]
        found += ranked(points, space)
    if not found:
        keys = ", ".join(space.names)
        raise UserError(
            f"no trial of {', '.join(names)} is a point of this space ({keys}). "
            "Name a search of the same keys with overlapping ranges."
        )
    return sorted(found, key=lambda point: -point.quantile)


def ranked(trials: Sequence[EngineTrial], space: SearchSpace) -> list[EarlierPoint]:
    """Return the points that the space allows, the best first, with their quantiles among all points."""
    points = [trial for trial in trials if trial.is_point]
    estimates = final_estimates(points, 0.0)
    order = sorted((t for t in points if t.number in estimates), key=lambda t: -estimates[t.number].mean)
    normal = statistics.NormalDist()
    found = []
    for rank, trial in enumerate(order):
        values = adapted(trial.values, space)
        if values is not None:
            found.append(EarlierPoint(values, normal.inv_cdf(1 - (rank + 0.5) / len(order))))
    return found[:MOST]


def adapted(values: Mapping[str, Any], space: SearchSpace) -> dict[str, Any] | None:
    """Return the point with the values that the new space lacks left out, and missing ones of its reference
    point; None when that is no point of the space."""
    found: dict[str, Any] = {}
    for parameter in space.applicable(found):
        if parameter.name in values:
            found[parameter.name] = values[parameter.name]
        elif parameter.name in space.reference_point:
            found[parameter.name] = space.reference_point[parameter.name]
        else:
            return None
    if not set(found) & set(values):
        return None
    try:
        space.validate_point(found)
    except Problem:
        return None
    return found


def moved(points: Sequence[EarlierPoint], scores: Sequence[float]) -> list[tuple[EarlierPoint, float, float]]:
    """Return (point, score, error): the quantiles on the scale of these scores of the new search."""
    if len(scores) < 2:
        centre, scale = (scores[0] if scores else 0.0), 1.0
    else:
        centre, scale = statistics.median(scores), statistics.stdev(scores)
    scale = scale or 1.0
    return [(point, centre + scale * point.quantile, SPREAD * scale) for point in points]
