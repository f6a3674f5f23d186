"""`--from`: the ranks of an earlier search, on the scale of the new one, and its best points first."""

from __future__ import annotations

from pathlib import Path

import pytest
from optuna.trial import TrialState
from support.trial_records import open_records

from dmltune.errors import UserError
from dmltune.experiment import load_experiment
from dmltune.search.budget import Plan
from dmltune.search.earlier import (
    EarlierPoint,
    adapted,
    moved,
    points_of,
    ranked,
    store_points,
    stored_points,
)
from dmltune.search.engine import Start
from dmltune.search.engine_trial import EngineTrial
from dmltune.search.making import make_engine
from dmltune.search.observations import Observations
from dmltune.search.sampling import Proposal
from dmltune.search.simulated_space import simulated_space
from dmltune.store import Store
from dmltune.train.orders import TrialReport

SPACE = simulated_space(
    {"x": {"float": [0.0, 1.0]}, "n": {"int": [1, 9]}}, reference_point={"x": 0.5, "n": 5}
)
EXPERIMENT = load_experiment("glyphs-ccp", ["noise_seeds=1"])


def trial(number: int, x: float, scores: list[float], state: str = "complete") -> EngineTrial:
    steps = list(range(1, len(scores) + 1))
    return EngineTrial(number, "search", {"x": x, "n": 2}, state=state, steps=steps, scores=scores)  # type: ignore[arg-type]


def test_points_are_ranked_with_the_stopped_ones_and_the_worst_last() -> None:
    trials = [
        trial(0, 0.1, [0.1, 0.3]),
        trial(1, 0.2, [0.2, 0.5]),
        trial(2, 0.3, [0.05], "pruned"),
        trial(3, 0.4, [0.15, 0.4]),
    ]
    points = ranked(trials, SPACE)
    assert [point.values["x"] for point in points] == [0.2, 0.4, 0.1, 0.3]
    quantiles = [point.quantile for point in points]
    assert quantiles == sorted(quantiles, reverse=True)
    assert sum(quantiles) == pytest.approx(0)


def test_only_points_of_the_new_space_count_and_missing_keys_come_from_its_reference_point() -> None:
    assert adapted({"x": 0.2, "other": 3}, SPACE) == {"x": 0.2, "n": 5}
    assert adapted({"x": 1.5, "n": 2}, SPACE) is None  # outside of its range
    assert adapted({"other": 3}, SPACE) is None  # nothing in common


def test_a_quantile_becomes_a_score_of_the_new_search_with_a_wide_error() -> None:
    points = [EarlierPoint({"x": 0.2, "n": 2}, 1.0), EarlierPoint({"x": 0.4, "n": 2}, -1.0)]
    (_, high, error), (_, low, _) = moved(points, [10.0, 12.0, 14.0])
    assert (high, low, error) == (14.0, 10.0, 2.0)
    told = Observations(SPACE).of([trial(0, 0.3, [10.0]), trial(1, 0.6, [14.0])], points)
    assert [t.params["x"] for t in told] == [0.2, 0.4, 0.3, 0.6]
    assert told[0].user_attrs["estimate_sd"] > told[2].user_attrs["estimate_sd"]
    assert all(t.state == TrialState.COMPLETE for t in told)


def test_the_best_earlier_points_are_tried_first_also_after_a_restart(tmp_path: Path) -> None:
    records = open_records(tmp_path, experiment=EXPERIMENT)
    reference = dict(EXPERIMENT.space.reference_point)
    best = reference | {"references.proxies": 2}
    store_points(records.study, [EarlierPoint(reference, 1.5), EarlierPoint(best, 1.0)])
    again = open_records(tmp_path, experiment=EXPERIMENT)
    engine = make_engine(EXPERIMENT, Plan.of(EXPERIMENT, 6), again)
    assert stored_points(again.study)[1].values == best
    for number, role in enumerate(("reference", "baseline")):
        found = engine.next()
        assert isinstance(found, Start)
        engine.add(EngineTrial(number, role, found.proposal.values))  # type: ignore[arg-type]
    found = engine.next()
    assert isinstance(found, Start)
    assert found.proposal.values == best  # the reference point was tried


def test_a_search_of_the_store_is_read_and_an_unknown_one_is_one_line(tmp_path: Path) -> None:
    records = open_records(tmp_path, experiment=EXPERIMENT)
    tracker = records.parent.tracker
    tracker.log_json(records.parent.run_id, "experiment.json", EXPERIMENT.to_dict())
    record = records.open("search", Proposal(dict(EXPERIMENT.space.reference_point)), 10)
    report = TrialReport(1, 10, 10, {"map_at_r": 0.4}, 0.4, 0.4, 10)
    records.progress(record.number, report, EXPERIMENT)
    records.close(record.number, "stopped")
    store = Store.at(tmp_path)
    (point,) = points_of(store, ["s"], EXPERIMENT.space)
    assert point.values == EXPERIMENT.space.reference_point
    with pytest.raises(UserError, match="no search 'nothing'"):
        points_of(store, ["nothing"], EXPERIMENT.space)
    other = simulated_space({"y": {"float": [0.0, 1.0]}})
    with pytest.raises(UserError, match="is a point of this space"):
        points_of(store, ["s"], other)
