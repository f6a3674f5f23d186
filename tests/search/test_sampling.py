"""Proposals: inside bounds and rules, no point twice, from all trials; what samplers store survives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.samplers import BaseSampler, NSGAIISampler, RandomSampler
from optuna.trial import FrozenTrial, TrialState, create_trial

from dmltune.errors import UserError
from dmltune.experiment import load_experiment
from dmltune.experiment.space.search_space import SearchSpace
from dmltune.search import samplers
from dmltune.search.sampling import Proposal, Proposer, as_template, distribution, size_of
from dmltune.search.study import Study
from dmltune.store import Store

optuna.logging.set_verbosity(optuna.logging.ERROR)


def space_of(search: dict[str, Any], *overrides: str) -> SearchSpace:
    experiment = load_experiment("glyphs-ccp", ["require=[]", "reference_point={}", *overrides])
    tree = experiment.to_dict() | {"search": search, "reference_point": {}}
    return SearchSpace.build(tree)


def finished(space: SearchSpace, values: dict[str, Any], score: float) -> FrozenTrial:
    ranges = {p.name: distribution(p) for p in space.parameters if p.name in values}
    return create_trial(value=score, params=values, distributions=ranges)


def proposer(
    space: SearchSpace, sampler: str | BaseSampler = "tpe", trials: int = 12, seed: int = 0
) -> Proposer:
    def build(number: int) -> BaseSampler:
        return samplers.load(sampler).build(trials, number) if isinstance(sampler, str) else sampler

    return Proposer(space, build, "max", seed)


def proposed(proposer: Proposer, trials: list[FrozenTrial]) -> dict[str, Any] | None:
    proposal = proposer.propose(trials)
    return None if proposal is None else dict(proposal.values)


def test_the_sampler_learns_from_the_trials() -> None:
    space = space_of({"loss.neg_margin": {"float": [0.0, 1.0]}})
    trials = [finished(space, {"loss.neg_margin": i / 40}, score=-((i / 40 - 0.3) ** 2)) for i in range(40)]
    proposals = [proposed(proposer(space, trials=40, seed=seed), trials) for seed in range(20)]
    near = [abs(values["loss.neg_margin"] - 0.3) < 0.2 for values in proposals if values]
    assert sum(near) >= 15  # at random it would be 8


def test_a_conditional_parameter_is_proposed_only_where_it_applies() -> None:
    space = space_of(
        {
            "references.name": {"choice": ["batch", "ccp"]},
            "references.lambda": {"float": [1e-5, 1e-1], "log": True, "when": {"references.name": "ccp"}},
        },
        "references=batch",
    )
    proposing = proposer(space, trials=20)
    trials: list[FrozenTrial] = []
    for _ in range(12):
        values = proposed(proposing, trials)
        if values is None:
            break
        assert ("references.lambda" in values) == (values["references.name"] == "ccp")
        trials.append(finished(space, values, score=0.5))
    assert {trial.params["references.name"] for trial in trials} == {"batch", "ccp"}


def test_a_finite_space_ends_when_every_point_was_tried() -> None:
    search = {"references.proxies": {"int": [1, 3]}, "references.pool_size": {"choice": [4, 8]}}
    space = space_of(search, "references.proxies=2", "references.pool_size=4")
    assert size_of(space) == 6
    proposing = proposer(space, trials=20)
    trials: list[FrozenTrial] = []
    while (values := proposed(proposing, trials)) is not None:
        trials.append(finished(space, values, score=0.1))
    assert len(trials) == 6


def test_the_sampler_gets_the_trials_that_run() -> None:
    space = load_experiment("glyphs-ccp").space
    running = as_template(space, Proposal(space.reference_point), {"role": "reference"})
    assert running.state == TrialState.RUNNING
    assert proposed(proposer(space), [running]) != dict(space.reference_point)


def test_rules_that_leave_no_point_are_an_error_with_a_remedy() -> None:
    space = load_experiment("glyphs-ccp").space
    impossible = SearchSpace.build(
        load_experiment("glyphs-ccp").to_dict()
        | {"require": ["references.pool_size >= 16 * references.proxies + 1"], "reference_point": {}}
    )
    assert space.parameters == impossible.parameters
    with pytest.raises(UserError, match=r"Widen the bounds or drop a rule"):
        proposer(impossible, "random", trials=5).propose([])


def nsga() -> NSGAIISampler:
    return NSGAIISampler(population_size=4, seed=0)


def generations(trials: list[FrozenTrial]) -> list[int]:
    (key,) = {key for trial in trials for key in trial.system_attrs if "generation" in key}
    return [trial.system_attrs[key] for trial in trials]


def test_generations_of_a_sampler_advance_over_rebuilt_studies_as_in_one_study(tmp_path: Path) -> None:
    """Every proposal is a new session: new sampler, new Proposer, the study read from the disk."""
    space = space_of({"loss.neg_margin": {"float": [0.0, 1.0]}, "optimizer.lr": {"float": [1e-4, 1e-1]}})
    for index in range(14):
        study = Study(Store.at(tmp_path), "s", "max")
        proposal = proposer(space, nsga(), seed=index).propose(study.trials(), study.sampler_state())
        assert proposal is not None
        number = study.create(as_template(space, proposal, {"role": "search"}))
        study.store_sampler_state(proposal.study_attributes)
        study.finish(number, TrialState.COMPLETE, -((proposal.values["loss.neg_margin"] - 0.3) ** 2))
    study = Study(Store.at(tmp_path), "s", "max")
    rebuilt = generations(study.trials())

    plain = optuna.create_study(direction="maximize", sampler=nsga())
    for _ in range(14):
        trial = plain.ask({p.name: distribution(p) for p in space.parameters})
        plain.tell(trial, -((trial.params["loss.neg_margin"] - 0.3) ** 2))
    assert rebuilt == generations(plain.get_trials()) == sorted(rebuilt)
    assert max(rebuilt) == 3
    # the populations that the sampler stores in the study, by generation
    assert study.sampler_state().keys() == plain._storage.get_study_system_attrs(plain._study_id).keys()


class Noting(RandomSampler):
    """Stores how many trials it has seen, in the trial and in the study."""

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        seen = len(study.get_trials(deepcopy=False)) - 1
        study._storage.set_trial_system_attr(trial._trial_id, "seen", seen)
        study._storage.set_study_system_attr(study._study_id, "last", seen)


def test_a_point_that_is_refused_leaves_no_trace_in_what_the_sampler_stores() -> None:
    space = space_of({"references.proxies": {"int": [1, 2]}}, "references.proxies=1")
    proposing, trials = proposer(space, Noting(seed=0)), list[FrozenTrial]()
    for number in range(2):
        proposal = proposing.propose(trials)
        assert proposal is not None
        assert proposal.values not in [trial.params for trial in trials]
        assert proposal.study_attributes["last"] == proposal.trial_attributes["seen"] >= number
        trials.append(finished(space, dict(proposal.values), 0.1))
    assert proposing.propose(trials) is None
