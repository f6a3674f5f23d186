"""Trials in turn for the choices of a balanced key, and several ranges of one key in a study."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import FrozenTrial, TrialState, create_trial
from support.stores import new_store

from dmltune.core import components
from dmltune.experiment import SearchSpace, load_experiment
from dmltune.runs import TrackedRun
from dmltune.search import samplers
from dmltune.search.records import TrialRecords
from dmltune.search.sampling import Proposal, Proposer, as_template, values_of
from dmltune.search.state import SearchState, TrialRole
from dmltune.tracking import Tracker

LOSSES = ("contrastive", "margin", "proxy_anchor", "triplet")
OVERRIDES = [
    f"search.loss.name={{choice: [{', '.join(LOSSES)}]}}",
    "search.loss.alpha=[{float: [0.05, 0.5], when: {loss.name: margin}},"
    " {float: [8, 64], log: true, when: {loss.name: proxy_anchor}}]",
    "search.optimizer.lr={float: [1e-6, 1e-3], log: true}",
]


def space(*more: str) -> SearchSpace:
    return load_experiment("cub", [*OVERRIDES, *more]).space


def finished(space: SearchSpace, proposal: Proposal, number: int) -> FrozenTrial:
    template = as_template(space, proposal, {})
    state = TrialState.PRUNED if number % 3 else TrialState.COMPLETE
    return create_trial(
        state=state,
        value=None if number % 3 else 0.1 * number,
        params=template.params,
        distributions=template.distributions,
        intermediate_values={1: 0.1 * number},
        system_attrs=template.system_attrs,
    )


def proposals(name: str, space: SearchSpace, count: int) -> list[FrozenTrial]:
    sampler = samplers.load(name)
    proposer = Proposer(space, lambda seed: sampler.build(count, seed), "max", 5)
    trials = [finished(space, Proposal(space.reference_point), 0)]
    while len(trials) < count:
        proposal = proposer.propose(trials)
        assert proposal is not None
        trials.append(finished(space, proposal, len(trials)))
    return trials


@pytest.mark.parametrize("name", components.names(samplers.PACKAGE))
def test_every_sampler_shares_its_trials_equally_and_starts_with_the_settings_of_each(name: str) -> None:
    balanced = space("balanced=loss.name")
    points = [values_of(trial) for trial in proposals(name, balanced, 14)]
    for point in points:
        balanced.validate_point(point)
        assert points.count(point) == 1
    taken = [point["loss.name"] for point in points]
    assert points[:4] == [balanced.own_point(loss) for loss in LOSSES]
    assert Counter(taken[:12]) == dict.fromkeys(LOSSES, 3)
    assert max(Counter(taken).values()) - min(Counter(taken).values()) == 1
    assert points == [values_of(trial) for trial in proposals(name, balanced, 14)]


@pytest.mark.parametrize("name", components.names(samplers.PACKAGE))
def test_ranges_of_one_key_have_names_of_their_own_in_a_study(name: str) -> None:
    free = space()
    trials = proposals(name, free, 14)
    ranges: dict[str, Any] = {}
    for trial in trials:
        for label, distribution in trial.distributions.items():
            assert ranges.setdefault(label, distribution) == distribution
        free.validate_point(values_of(trial))
    alphas = {label for label in ranges if label.startswith("loss.alpha")}
    assert alphas <= {"loss.alpha when loss.name: margin", "loss.alpha when loss.name: proxy_anchor"}
    assert alphas
    assert "optimizer.lr" in ranges


def test_a_choice_whose_points_are_all_tried_leaves_its_trials_to_the_others() -> None:
    spec = "search.loss.margin={choice: [0.0961, 0.2], when: {loss.name: triplet}}"
    two = load_experiment(
        "cub", ["search.loss.name={choice: [contrastive, triplet]}", spec, "balanced=loss.name"]
    ).space
    points = [values_of(trial) for trial in proposals("random", two, 3)]
    assert [point["loss.name"] for point in points] == ["contrastive", "triplet", "triplet"]


def test_the_run_of_a_trial_shows_the_batch_and_the_optimizer_of_its_loss(tmp_path: Path) -> None:
    experiment = load_experiment("cub", [*OVERRIDES, "baseline={loss: proxy_nca}"])
    store = new_store(tmp_path)
    tracker = Tracker(store)
    parent = TrackedRun.open(
        tracker, tracker.experiment("some-space"), "s", role="search", metric="map_at_r", params={}, about={}
    )
    state = SearchState("s", "some-space", "map_at_r", "max", trials_planned=9)
    records = TrialRecords(store, state, experiment, parent, {}, None)

    def logged(role: TrialRole, values: dict[str, Any]) -> dict[str, str]:
        number = records.open(role, Proposal(values), 10).number
        return dict(tracker.client.get_run(records.state.rows[number].run_id).data.params)

    anchor = {"loss.name": "proxy_anchor", "loss.alpha": 32.0, "optimizer.lr": 1e-5}
    brought = ("batch.samples_per_class", "optimizer.proxy_factor", "optimizer.warmup_new_layers")
    assert [logged("search", anchor)[key] for key in ("loss.alpha", *brought)] == [
        "32.0",
        "1",
        "100.0",
        "122",
    ]
    pair = logged("search", {"loss.name": "triplet", "optimizer.lr": 1e-5})
    assert [pair[key] for key in brought] == ["4", "1.0", "0"]
    assert [logged("baseline", {})[key] for key in ("loss.name", *brought)] == [
        "proxy_nca",
        "1",
        "100.0",
        "122",
    ]
    resumed = TrialRecords(store, state, experiment, parent, {}, None)
    assert resumed.state.rows[0].values == anchor
    assert "loss.alpha when loss.name: proxy_anchor" in resumed.trials()[0].params
