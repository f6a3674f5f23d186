"""`dmltune runs` and what it reads: states, trials, the best score, times."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState
from support.stored_searches import EXPERIMENT, WrittenTrial, point, reference, repeat, write_search
from support.stores import new_store

from dmltune.cli import main
from dmltune.store import Store
from dmltune.train.name_claim import claim_name

STARTED = WrittenTrial("search", {0: 0.1, 10: 0.2}, state=TrialState.RUNNING)
STOPPED = WrittenTrial("search", {0: 0.1, 10: 0.9}, state=TrialState.PRUNED)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Two searches: one complete, whose repetition and stopped trial scored higher, and one killed."""
    store = new_store(tmp_path_factory.mktemp("runs"))
    trials = [reference(0.40), point(0.45, proxies=5), STOPPED, repeat(0.95, seed=1)]
    write_search(store, "whole", trials)
    write_search(store, "killed", [reference(0.40), STARTED], state=None, planned=9)
    return store


def shown(capsys: pytest.CaptureFixture[str], store: Store, *words: str) -> str:
    assert main([*words, "--store", str(store.root)]) == 0
    return capsys.readouterr().out


def test_every_search_is_a_row_of_at_most_80_columns(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = shown(capsys, store, "runs").splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["search", "space", "state", "trials", "MAP@R", "%", "started", "duration"]
    rows = {line.split()[0]: line.split()[1:5] for line in lines[1:]}
    assert rows["whole"] == ["glyphs-ccp", "complete", "4/4", "45.0"]
    assert rows["killed"] == ["glyphs-ccp", "interrupted", "1/9", "40.0"]


def test_the_document_has_fractions_seconds_and_the_states_of_the_trials(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, killed = json.loads(shown(capsys, store, "runs", "-f", "json"))
    assert (whole["best"], whole["best_trial"], whole["metric"]) == (0.45, 1, "map_at_r")
    assert whole["trials"] == {"planned": 4, "ended": 4, "complete": 3, "pruned": 1}
    assert killed["trials"] == {"planned": 9, "ended": 1, "complete": 1, "interrupted": 1}
    assert 0 <= whole["seconds"] < 60


def test_a_search_whose_name_is_held_runs(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    def state() -> list[str]:
        return [search["state"] for search in json.loads(shown(capsys, store, "runs", "-f", "json"))]

    with claim_name(store, "killed", EXPERIMENT, "glyphs:f"):
        assert state() == ["complete", "running"]
        assert state() == ["complete", "running"]  # looking does not take the name
    assert state() == ["complete", "interrupted"]


def test_long_names_stay_within_80_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = new_store(tmp_path)
    write_search(store, "x" * 100, [reference(0.4)])
    out = shown(capsys, store, "runs")
    assert max(map(len, out.splitlines())) <= 80
    assert "".join(re.findall("x+", out)) == "x" * 100


def test_a_store_without_runs_gets_no_database(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no searches in" in shown(capsys, Store(tmp_path), "runs")
    assert json.loads(shown(capsys, Store(tmp_path), "runs", "-f", "json")) == []
    assert list(tmp_path.iterdir()) == []


def test_the_study_names_its_metric_for_optunas_tools(store: Store) -> None:
    study = optuna.load_study(study_name="whole", storage=store.optuna_url)
    assert study.metric_names == ["map_at_r"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert ("map_at_r") in {name for _, name in study.trials_dataframe(multi_index=True).columns}


def test_listing_loads_neither_torch_nor_ray(store: Store) -> None:
    code = (
        "import sys; from dmltune.cli import main;"
        f"main(['runs', '--store', {str(store.root)!r}]);"
        "print([name for name in ('torch', 'ray') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
