"""Repetitions of the reference point, the noise, and searched parameters that had no effect. Without Ray."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import pytest
from support.trial_records import open_records, write_model

from dmltune import tags
from dmltune.errors import UserError
from dmltune.experiment import Experiment, load_experiment
from dmltune.resources import Locations
from dmltune.search import api
from dmltune.search.budget import Plan
from dmltune.search.engine import Engine, Start
from dmltune.search.findings import idle_parameters, noise
from dmltune.search.making import make_engine
from dmltune.search.records import TrialRecords
from dmltune.search.searcher import Dispatch, StudySearcher
from dmltune.search.state import TrialRecord
from dmltune.store import Store
from dmltune.train.orders import Order, TrialReport

EXPERIMENT = load_experiment("glyphs-ccp", ["noise_seeds=3", "seed=5"])
SMALL = load_experiment(
    "glyphs-ccp", ["noise_seeds=3", "seed=5", "data.classes=40", "data.size=16", "batch.size=32"]
)
IDLE = {"references.lambda": "why; remedy", "zero_shot.scale": "not searched"}


def searcher(records: TrialRecords, folder: Path) -> StudySearcher:
    def make_order(record: TrialRecord, point: Experiment) -> Order:
        return Order.of(str(record.number), point, folder, Locations(Store.at(folder)))

    engine = make_engine(EXPERIMENT, Plan.of(EXPERIMENT, 3), records)
    dispatch = Dispatch(make_order, lambda order_id: None, lambda order_id: None, {}, concurrent=lambda: 9)
    return StudySearcher(EXPERIMENT, records, engine, dispatch, may_start=lambda: True)


def finish(records: TrialRecords, number: int, score: float) -> None:
    write_model(records, number)
    report = TrialReport(1, 10, 10, {"map_at_r": score}, score, score, 10, True, "max_steps", idle=IDLE)
    records.progress(number, report, EXPERIMENT)
    records.close(number, "")


def test_the_reference_point_is_repeated_with_other_seeds_that_no_sampler_sees(tmp_path: Path) -> None:
    records = open_records(tmp_path, experiment=EXPERIMENT)
    configs = [searcher(records, tmp_path).suggest("0")]
    first = searcher(records, tmp_path)
    configs += [first.suggest(str(number)) for number in range(1, 5)]
    assert first.suggest("6") is None  # there may be more to repeat when these have ended
    assert first.failure is None
    rows = [records.state.rows[number] for number in range(5)]
    assert [row.role for row in rows] == ["reference", "baseline", "repeat", "repeat", "search"]
    orders = [Experiment.from_validated(json.loads(config["order"])["experiment"]) for config in configs]
    assert [order.seed for order in orders] == [5, 5, 6, 7, 5]
    assert orders[2].differences(orders[0]) == ["seed: 6 → 5"]
    assert [trial.number for trial in records.points()] == [0, 4]
    scores = [0.5, 0.9, 0.52, 0.57, 0.6]
    for number, score in enumerate(scores):
        finish(records, number, score)
    resumed = open_records(tmp_path, experiment=EXPERIMENT)
    kept = [(row.role, row.seed, row.idle) for row in resumed.state.rows.values()]
    assert kept == [(row.role, row.seed, row.idle) for row in records.state.rows.values()]
    assert kept[4] == ("search", None, {"references.lambda": "why; remedy"})
    assert searcher(resumed, tmp_path).suggest("7") == "FINISHED"  # nothing is repeated once more
    found = noise(resumed.state.rows.values())
    assert found is not None
    assert found.scores == (0.5, 0.52, 0.57)
    assert found.std == pytest.approx(statistics.stdev(found.scores))
    labels = records._tracker.client.get_run(rows[2].run_id).data
    assert (labels.tags[tags.ROLE], labels.tags[tags.SEED], labels.params["seed"]) == ("repeat", "6", "6")
    assert records._tracker.client.get_run(rows[4].run_id).data.tags[tags.IDLE] == (
        "references.lambda: why; remedy"
    )


def test_a_later_session_begins_with_the_point_that_is_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def session(records: TrialRecords, engine: Engine, *_: object) -> None:
        if not records.trials():  # the first session
            first = searcher(records, tmp_path)
            for number in range(4):  # the reference point three times, and the baseline
                first.suggest(str(number))
                finish(records, number, 0.5 + number / 100)
        else:
            fresh = make_engine(SMALL, Plan.of(SMALL, 5), records)
            asked.append((engine.next(), fresh.next()))
        raise UserError("enough for now")

    monkeypatch.setattr(api, "_run", session)
    for _ in range(2):
        with pytest.raises(UserError, match="enough for now"):
            api.search(SMALL, space_name="glyphs-ccp", name="n", trials=5, store=Store.at(tmp_path / "runs"))
    ((begun, expected),) = asked
    assert isinstance(begun, Start)
    assert begun.role == "search"
    assert begun == expected


def test_an_interrupted_repetition_continues_with_its_seed(tmp_path: Path) -> None:
    records = open_records(tmp_path, experiment=EXPERIMENT)
    first = searcher(records, tmp_path)
    for number in range(3):
        first.suggest(str(number))
    for number in (0, 1):
        finish(records, number, 0.5)
    records.interrupt(2, "stopped")
    config = searcher(open_records(tmp_path, experiment=EXPERIMENT), tmp_path).suggest("again")
    order = json.loads(config["order"])
    assert (order["id"], order["experiment"]["seed"]) == ("2", 6)


@pytest.mark.parametrize(
    ("seeds", "trials", "noise", "repeats", "total"),
    [
        (3, 12, 2, 2, 14),
        (1, 12, 0, 2, 12),
        (0, 12, 2, 2, 14),
        (0, 5, 1, 1, 6),
        (0, 4, 0, 0, 4),
        (0, 1, 0, 0, 2),
    ],
)
def test_the_noise_is_measured_beside_the_trials_and_candidates_are_repeated_within_them(
    seeds: int, trials: int, noise: int, repeats: int, total: int
) -> None:
    assert EXPERIMENT.fixed().noise_seeds == 0
    plan = Plan.of(load_experiment("glyphs-ccp", [f"noise_seeds={seeds}"]), trials)
    assert (plan.noise_repeats, plan.repeats, plan.total) == (noise, repeats, total)
    assert plan.points + plan.baseline + noise + repeats == total


def row(number: int, state: Any = "complete", idle: bool = True, **values: Any) -> TrialRecord:
    reasons = {"a": "why; remedy"} if idle else {}
    return TrialRecord(number, "search", {"a": 1, **values}, state, best=0.1, idle=reasons)


def test_a_parameter_that_acted_in_less_than_half_of_its_trials_is_named() -> None:
    rows = [row(0), row(1), row(2, idle=False), row(3, state="failed", idle=False)]
    found = idle_parameters(["a", "b"], [*rows, TrialRecord(4, "baseline", {}, "complete")])
    assert [vars(each) for each in found] == [{"name": "a", "acted": 1, "trials": 3, "why": "why; remedy"}]
    assert idle_parameters(["a"], [*rows, row(5, idle=False)]) == ()
    assert idle_parameters(["a"], []) == ()
    assert noise([row(0), row(1)]) is None
