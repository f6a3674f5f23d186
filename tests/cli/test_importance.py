"""`dmltune importance`: the parameter that decides is first, noise is not an effect, few trials are told."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from optuna.trial import TrialState
from support.stored_searches import (
    EXPERIMENT,
    WrittenTrial,
    frozen,
    point,
    reference,
    repeat,
    write_search,
)
from support.stores import new_store

from dmltune.cli import main
from dmltune.experiment import Experiment
from dmltune.search.importance import Importances, importances
from dmltune.search.stored import StoredSearches
from dmltune.store import Store

COUNT = 48
LAMBDA = EXPERIMENT.space["references.lambda"]


def trials(seed: int, strength: float, noise: float) -> list[WrittenTrial]:
    """Points whose score falls with log λ; the rest has no effect. Every third is stopped half-way."""
    numbers = np.random.default_rng(seed)
    written = [reference(0.5)]
    for number in range(COUNT):
        place = float(numbers.random())
        rate = LAMBDA.low * (LAMBDA.high / LAMBDA.low) ** place
        values = {"lambda": rate, "proxies": int(numbers.integers(1, 7))}
        score = 0.5 - strength * place + noise * float(numbers.normal())
        made = point(score, **values)
        if number % 3 == 2:
            half = {step: value for step, value in made.curve.items() if step < 20}
            made = replace(made, curve=half, state=TrialState.PRUNED)
        written.append(made)
    return written


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = new_store(tmp_path_factory.mktemp("runs"))
    write_search(store, "few", trials(2, strength=0.2, noise=0.01)[:9])
    write_search(store, "fewer", [reference(0.5), point(0.4)])
    return store


def measured(store: Store, written: list[WrittenTrial], experiment: Experiment = EXPERIMENT) -> Importances:
    """Return the importances of a search with these trials, which no database has."""
    trials = tuple(frozen(each, experiment, number) for number, each in enumerate(written))
    return importances(replace(StoredSearches(store).get("few"), trials=trials))


def test_the_parameter_that_decides_is_first_and_its_interval_excludes_the_others(store: Store) -> None:
    found = measured(store, trials(0, strength=0.2, noise=0.01))
    first, *others = found.parameters
    assert first.name == "references.lambda"
    assert first.share > 0.8
    assert all(row.high < first.low for row in others)
    assert {row.name for row in found.parameters} == set(EXPERIMENT.space.names)
    assert math.isclose(sum(row.share for row in (*found.parameters, found.rest)), 1.0)
    assert (found.complete, found.estimated, found.warning) == (33, 16, "")


def test_the_direction_of_the_metric_does_not_matter(store: Store) -> None:
    """Scores times -1, of which the lowest is the best, are the same scores."""
    written = trials(0, strength=0.2, noise=0.01)
    turned = [replace(each, curve={step: -score for step, score in each.curve.items()}) for each in written]
    few = StoredSearches(store).get("few")
    high = importances(replace(few, trials=tuple(frozen(t, number=n) for n, t in enumerate(written))))
    low = [frozen(each, number=number) for number, each in enumerate(turned)]
    for trial in low:
        if trial.state == TrialState.COMPLETE:
            trial.value = min(trial.intermediate_values.values())
    assert importances(replace(few, mode="min", trials=tuple(low))) == high


def test_noise_that_repetitions_have_measured_is_nobodys_share(store: Store) -> None:
    written = trials(1, strength=0.0, noise=0.05)
    repeats = [repeat(0.5 + change, seed) for seed, change in enumerate((-0.05, 0.06, -0.04), 1)]
    found, unknown = measured(store, [*written, *repeats]), measured(store, written)
    assert (found.noise_known, unknown.noise_known) == (True, False)
    assert all(row.low < 0.05 for row in found.parameters)
    assert unknown.rest.share > 0.9
    assert found.rest.share < unknown.rest.share


def test_the_same_search_has_the_same_figures(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    documents = []
    for _ in range(2):
        assert main(["importance", "few", "--store", str(store.root), "-f", "json"]) == 0
        documents.append(json.loads(capsys.readouterr().out))
    assert documents[0] == documents[1]
    assert documents[0]["parameters"][0]["name"] == "references.lambda"


def test_bars_fit_80_columns_and_few_trials_are_warned_of(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["importance", "few", "--store", str(store.root)]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert "9 trials are few for 4 parameters" in out
    assert "7 complete, 2 stopped (their final score is estimated)" in " ".join(out.split())
    bars = [
        line for line in out.splitlines() if line.split()[:1] and line.split()[0] in {"lambda", "proxies"}
    ]
    assert bars[0].startswith("lambda")
    assert "█" in bars[0]


def test_a_conditional_parameter_counts_as_often_as_it_applies(store: Store) -> None:
    """Each loss has a margin of its own, and one of the two margins acts."""
    experiment = EXPERIMENT.with_values({"max_steps": 600}).to_dict()
    experiment["search"] = {
        "loss.name": {"choice": ["contrastive", "triplet"]},
        "loss.neg_margin": {"float": [0.1, 0.9], "when": {"loss.name": "contrastive"}},
        "loss.margin": {"float": [0.1, 0.9], "when": {"loss.name": "triplet"}},
    }
    experiment["reference_point"], experiment["require"], experiment["baseline"] = {}, [], {}
    space = type(EXPERIMENT).from_dict(experiment)
    numbers = np.random.default_rng(5)
    written = []
    for _ in range(60):
        name = ("contrastive", "triplet")[int(numbers.integers(2))]
        key = {"contrastive": "loss.neg_margin", "triplet": "loss.margin"}[name]
        margin = float(numbers.uniform(0.1, 0.9))
        score = 0.3 + (0.3 * margin if name == "triplet" else 0.0) + 0.005 * float(numbers.normal())
        written.append(WrittenTrial("search", {20: score}, {"loss.name": name, key: margin}))
    found = measured(store, written, space)
    shares = {row.name: row.share for row in found.parameters}
    assert shares["loss.margin"] > 0.1 > 0.05 > shares["loss.neg_margin"]
    assert shares["loss.name"] > shares["loss.margin"]  # it adds ½ · 0.15² against ½ · 0.3² · 0.64 / 12
    assert {row.name: row.trials for row in found.parameters}["loss.name"] == 60


def test_too_few_trials_are_a_mistake_in_one_line(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["importance", "fewer", "--store", str(store.root)]) == 2
    assert capsys.readouterr().err == "importances need at least 6 ended trials; 'fewer' has 2\n"
