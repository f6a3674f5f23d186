"""A store that an older dmltune wrote (tests/data_old_store): listed, evaluated, checked, resumed."""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import TrialState
from support.driving import Place

from dmltune import tags
from dmltune.search.stored import StoredSearches
from dmltune.store import Store
from dmltune.tracking import Tracker

ARCHIVE = Path(__file__).parent / "data_old_store" / "store.tar.xz"
WRITTEN_AT = "/tmp/dmltune-old-store"
# the space as it was when the store was written
AS_IT_WAS = (
    *("monitor.every=null", "monitor.images=500", "references.longest=null"),
    *("reference_point.references.pool_size=7", "sampler=tpe", "scheduler.unit=steps"),
)
SHORT = ("glyphs-ccp", *AS_IT_WAS, "data.classes=40")
DONE = ("search", *SHORT, "max_steps=6", "validate_every=2", "--trials", "4", "--name", "done", "-f", "json")
HALF = (
    "search",
    *SHORT,
    "max_steps=30",
    "validate_every=10",
    "--trials",
    "4",
    "--name",
    "half",
    "-f",
    "json",
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """The old store, moved: MLflow has the absolute addresses of artifacts."""
    place = Place(tmp_path_factory.mktemp("place"))
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(place.folder, filter="data")
    (place.folder / "store").rename(place.store.rename(place.folder / "unused").parent / "mlruns")
    with contextlib.closing(sqlite3.connect(place.store / "mlflow.db")) as database:
        for table, column in (("runs", "artifact_uri"), ("experiments", "artifact_location")):
            database.execute(
                f"UPDATE {table} SET {column} = replace({column}, ?, ?)", (WRITTEN_AT, str(place.store))
            )
        database.commit()
    yield place
    place.clean_up()


def document(place: Place, *command: str) -> dict[str, Any]:
    code, out, errors = place.run(*command)
    assert code == 0, errors
    parsed: dict[str, Any] = json.loads(out)
    return parsed


def labels(place: Place, name: str) -> dict[str, str]:
    return dict(place.runs(name)[tags.PARENT].data.tags)


def test_it_is_listed(place: Place) -> None:
    assert Tracker(Store.at(place.store)).names() == ["done", "done-check", "half", "trained"]
    code, out, errors = place.run("table")
    assert code == 0, errors
    assert "done" in out
    searches = {search.name: search for search in StoredSearches(Store.at(place.store)).all()}
    assert {name: search.status for name, search in searches.items()} == {
        "done": "complete",
        "half": "interrupted",
    }
    assert {name: best.number for name, search in searches.items() if (best := search.winner)} == {
        "done": 3,
        "half": 0,
    }
    assert searches["done"].metric == "map_at_r"


def test_a_search_and_a_training_are_evaluated(place: Place) -> None:
    for name in ("done", "trained"):
        best = place.runs(name)[tags.PARENT].data.metrics["best_map_at_r"]
        evaluated = document(place, "evaluate", name, "-f", "json")
        assert evaluated["images"] > 100
        assert math.isclose(evaluated["map_at_r"], best, abs_tol=0.05)  # the stored weights are rounded


def test_a_finished_search_is_shown_and_not_changed(place: Place) -> None:
    before = labels(place, "done")
    result = document(place, *DONE)
    assert [row["state"] for row in result["rows"]] == ["complete", "complete", "pruned", "complete"]
    assert result["winner"]["run_id"] == before[tags.WINNER]
    assert labels(place, "done") == before


def test_a_killed_search_is_resumed_and_its_finished_trials_are_not_repeated(place: Place) -> None:
    before = {t.number: (t.value, t.datetime_complete) for t in place.study("half") if t.state.is_finished()}
    assert len(before) == 2
    result = document(place, *HALF)
    after = place.study("half")
    assert all(trial.state in (TrialState.COMPLETE, TrialState.PRUNED) for trial in after)
    assert len(after) == len(result["rows"]) == 4
    for number, (value, completed) in before.items():
        assert (after[number].value, after[number].datetime_complete) == (value, completed)
    steps = place.steps(place.runs("half")["0002"])  # continued from its checkpoint, in its run
    assert steps == [0, 10, 20, 30][: len(steps)]
    assert len(steps) >= 2
    assert labels(place, "half")[tags.STATE] == "complete"


def test_a_check_is_shown_again_and_a_new_one_is_made(place: Place) -> None:
    code, out, errors = place.run("table", "done-check")
    assert code == 0, errors
    assert "done-check" in out
    shown = document(place, "check", "done", "--folds", "2", "--repeats", "1", "-f", "json")
    old = json.loads((place.store / "searches" / "done-check" / "check.json").read_text())
    assert shown["name"] == old["name"] == "done-check"
    assert [c["digest"] for c in shown["configurations"]] == [c["digest"] for c in old["configurations"]]
    new = document(
        place, "check", "done", "--folds", "1", "--repeats", "1", "--name", "done-second", "-f", "json"
    )
    assert len(new["configurations"]) >= 2
    assert all(len(c["models"]) == 1 for c in new["configurations"])
