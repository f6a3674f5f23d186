"""The contract of every sampler: any file of dmltune/search/samplers is found and tested."""

from __future__ import annotations

from typing import Any

import pytest
from optuna.trial import FrozenTrial, TrialState, create_trial

from dmltune.core import components
from dmltune.errors import UserError
from dmltune.experiment import SearchSpace, load_experiment
from dmltune.search import samplers
from dmltune.search.sampling import Proposal, Proposer, as_template

NAMES = components.names(samplers.PACKAGE)
OVERRIDES = [
    "search.loss.name={choice: [contrastive, triplet]}",
    "search.loss.margin={float: [0.01, 0.5], log: true, when: {loss.name: triplet}}",
]


def space() -> SearchSpace:
    """Numbers, a logarithm, a choice with a condition, and the rule pool_size >= proxies."""
    return load_experiment("glyphs-ccp", OVERRIDES).space


def finished(proposal: Proposal, number: int) -> FrozenTrial:
    template = as_template(space(), proposal, {})
    state = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)[number % 3]
    return create_trial(
        state=state,
        value=0.1 * number if state == TrialState.COMPLETE else None,
        params=template.params,
        distributions=template.distributions,
        intermediate_values={1: 0.1} if state != TrialState.FAIL else {},
        system_attrs=template.system_attrs,
    )


def proposals(name: str, seed: int, count: int = 9) -> list[dict[str, Any]]:
    """One after the other, each after the one before has finished."""
    sampler = samplers.load(name)
    proposer = Proposer(space(), lambda number: sampler.build(count, number), "max", seed)
    trials: list[FrozenTrial] = []
    study_attributes: dict[str, Any] = {}
    for number in range(count):
        proposal = proposer.propose(trials, study_attributes)
        assert proposal is not None
        study_attributes = dict(proposal.study_attributes)
        trials.append(finished(proposal, number))
    return [trial.params for trial in trials]


@pytest.mark.parametrize("name", NAMES)
def test_its_points_keep_every_rule_are_new_and_repeat_with_the_seed(name: str) -> None:
    points = proposals(name, seed=3)
    for point in points:
        space().validate_point(point)
        assert points.count(point) == 1
    assert points == proposals(name, seed=3)
    assert points != proposals(name, seed=4)


@pytest.mark.parametrize("name", NAMES)
def test_its_parameters_have_types_defaults_and_ranges_and_a_yaml_may_name_it(name: str) -> None:
    cls = components.find(samplers.PACKAGE, name)
    assert cls.__doc__
    for parameter in components.parameters(cls).values():
        assert parameter.annotation is not parameter.empty
        assert parameter.default is not parameter.empty
    assert load_experiment("glyphs-ccp", [f"sampler={name}"]).sampler.name == name


def test_an_unknown_sampler_or_parameter_is_an_error_with_the_nearest_name() -> None:
    with pytest.raises(UserError, match="did you mean 'tpe'"):
        load_experiment("glyphs-ccp", ["sampler=tpee"])
    with pytest.raises(UserError, match="did you mean 'startup_trials'"):
        load_experiment("glyphs-ccp", ["sampler={name: tpe, startup_trial: 3}"])
    with pytest.raises(UserError, match="at least 1"):
        load_experiment("glyphs-ccp", ["sampler={name: gp, startup_trials: 0}"])
