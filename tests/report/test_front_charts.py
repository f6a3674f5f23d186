"""Figures beyond the score: the front over costs, cheap trainings, the covering radius over projections."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.stored_searches import WrittenTrial, point, reference, write_search
from support.stores import new_store

from dmltune.report import front_charts
from dmltune.report.charts import write_charts
from dmltune.report.search_page import sections, write_search_page
from dmltune.search.page_data import SearchPageData
from dmltune.search.state import TrialRecord
from dmltune.search.stored import StoredSearches
from dmltune.store import Store
from dmltune.tracking import Tracker

INTERVAL = {"mean": 0.45, "low": 0.4, "high": 0.5}
MEMBERS = [
    {
        "trial": 2,
        "score": 0.45,
        "interval": {"mean": 0.45, "low": 0.4, "high": 0.5},
        "costs": {"parameters": 4.0},
    },
    {"trial": 3, "score": 0.44, "interval": None, "costs": {"parameters": 2.0}},
    {"trial": 0, "score": 0.2, "interval": None, "costs": {"parameters": 1.0}},
]
FIDELITY = {
    "settings": {"max_steps": 5}, "cost": 0.25, "cheap_trials": 2, "measured_cost": 0.3,
    "trust": {"pairs": 2, "correlation": 0.9, "low": 0.5, "high": 1.0, "threshold": 0.6, "trusted": True},
}  # fmt: skip


def costing(trial: WrittenTrial, parameters: float) -> WrittenTrial:
    return replace(trial, about={**trial.about, "costs": {"parameters": parameters}})


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> SearchPageData:
    """A search with a front, two points that were trained cheaply too, and metrics in three runs."""
    store = new_store(tmp_path_factory.mktemp("fronts"))
    full = [point(0.45, proxies=2), point(0.44, proxies=5)]
    cheap = [replace(each, role="cheap", curve={0: 0.1, 5: 0.2}) for each in full]
    trials = [
        costing(reference(0.2), 1.0),
        WrittenTrial("baseline", {0: 0.1, 20: 0.15}),
        *(costing(each, cost) for each, cost in zip(full, (4.0, 2.0), strict=True)),
        *cheap,
    ]
    write_search(store, "front", trials, outcome={"winner": 2, "winner_set": [2], "noise": 0.01})
    found = StoredSearches(store).get("front")
    tree: dict[str, Any] = found.tracker.read_json(found.run_id, "result.json")
    front = {"against": ["parameters"], "members": MEMBERS, "knee": 3}
    found.tracker.log_json(found.run_id, "result.json", {**tree, "front": front, "fidelity": FIDELITY})
    return with_runs(SearchPageData(StoredSearches(store).get("front")), store)


def with_runs(data: SearchPageData, store: Store) -> SearchPageData:
    """Give winner and baseline runs of their own, with what validations of CCP log."""
    tracker = Tracker(store)
    for row, projections in ((data.winner, (1, 2, 2)), (data.baseline, (None, None, None))):
        assert row is not None
        key = {"dmltune.search": "front", "dmltune.number": f"{row.number:04d}"}
        run_id = tracker.begin_run(tracker.experiment("space"), f"front-{row.number}", key, {}, {})[0]
        row.run_id = run_id
        for step, projection in zip((0, 10, 20), projections, strict=True):
            metrics = {"covering_radius": 0.3 + step / 100}
            metrics |= {} if projection is None else {"projection": float(projection)}
            tracker.log(run_id, step, metrics)
    return data


def test_the_front_is_a_staircase_over_the_cost_with_the_knee(data: SearchPageData) -> None:
    (chart,) = front_charts.fronts(data)
    assert chart is not None
    stairs, points, knee = chart.spec["layer"]
    assert [(row["cost"], row["score"]) for row in stairs["data"]["values"]] == [(1, 20), (2, 44), (4, 45)]
    assert [row["trial"] for row in knee["data"]["values"]] == [3]
    assert {row["cost"] for row in chart.spec["data"]["values"]} == {1, 2, 4}
    table = front_charts.front_table(data)
    assert table is not None
    assert table.rows[0][2] == "40.0 to 50.0"
    assert points["encoding"]["x"]["title"] == "million weights"


def test_points_that_were_trained_both_ways_are_compared(data: SearchPageData) -> None:
    chart = front_charts.fidelity(data)
    assert chart is not None
    assert [(row["cheap"], row["full"]) for row in chart.spec["data"]["values"]] == [(20, 45), (20, 44)]


def test_the_covering_radius_is_drawn_with_the_start_of_each_projection(data: SearchPageData) -> None:
    chart = front_charts.geometry(data)
    assert chart is not None
    radius = [(row["role"], row["step"], row["radius"]) for row in chart.spec["data"]["values"]]
    assert radius == [
        (name, step, 0.3 + step / 100) for name in ("winner", "baseline") for step in (0, 10, 20)
    ]
    (starts,) = [layer["data"]["values"] for layer in chart.spec["layer"] if "data" in layer]
    assert [(row["step"], row["projection"]) for row in starts] == [(10, 2)]


def test_all_of_it_is_on_the_page_and_in_files(data: SearchPageData, tmp_path: Path) -> None:
    text = write_search_page(data, tmp_path / "page.html").read_text("utf-8")
    for part in ("Score against costs", "Cheap trainings", "How compact classes get", "25 % of a full one"):
        assert part in text
    drawn = sections(data)
    charts = [*drawn["front"], *drawn["fidelity"], *drawn["geometry"]]
    assert all(chart.alt and chart.caption for chart in charts)
    names = {file.name for file in write_charts(charts, tmp_path)}
    assert {"front-parameters.pdf", "fidelity.png", "geometry.svg"} <= names


def test_a_search_without_costs_cheap_trainings_and_runs_has_none_of_these_figures(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    write_search(store, "plain", [reference(0.3), point(0.4)])
    plain = SearchPageData(StoredSearches(store).get("plain"))
    assert front_charts.fronts(plain) == []
    assert front_charts.front_table(plain) is front_charts.fidelity(plain) is None
    assert front_charts.geometry(plain) is plain.fidelity is None
    assert plain.measured(TrialRecord(0, "search", {}, run_id="0" * 32)) == []
