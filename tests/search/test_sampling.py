"""What the sampler may propose: inside bounds and rules, nothing twice, from all that is known."""

from __future__ import annotations

from typing import Any

import optuna
import pytest
from optuna.trial import FrozenTrial, TrialState, create_trial

from dmltune.errors import UserError
from dmltune.experiment import load_experiment
from dmltune.experiment.space.search_space import SearchSpace
from dmltune.search.sampling import Proposer, as_template, distribution, size_of

optuna.logging.set_verbosity(optuna.logging.ERROR)


def space_of(search: dict[str, Any], *overrides: str) -> SearchSpace:
    experiment = load_experiment("glyphs-ccp", ["require=[]", "reference_point={}", *overrides])
    tree = experiment.to_dict() | {"search": search, "reference_point": {}}
    return SearchSpace.build(tree)


def finished(space: SearchSpace, values: dict[str, Any], score: float) -> FrozenTrial:
    ranges = {p.name: distribution(p) for p in space.parameters if p.name in values}
    return create_trial(value=score, params=values, distributions=ranges)


@pytest.mark.parametrize("sampler", ["tpe", "gp", "random"])
def test_proposals_keep_every_rule_and_never_repeat(sampler: str) -> None:
    space = load_experiment("glyphs-ccp").space
    proposer = Proposer(space, sampler, "maximize", trials=12, seed=0)
    known: list[FrozenTrial] = []
    for index in range(15):
        values = proposer.propose(known)
        assert values is not None
        assert space.violated(values) is None
        space.validate_point(values)
        assert values not in [trial.params for trial in known]
        known.append(finished(space, values, score=-abs(values["references.lambda"] - 1e-3) + index * 1e-6))


def test_the_sampler_learns_from_what_is_known() -> None:
    space = space_of({"loss.neg_margin": {"float": [0.0, 1.0]}})
    known = [finished(space, {"loss.neg_margin": i / 40}, score=-((i / 40 - 0.3) ** 2)) for i in range(40)]
    proposer = Proposer(space, "tpe", "maximize", trials=40, seed=1)
    proposals = [proposer.propose(known) for _ in range(20)]
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
    proposer = Proposer(space, "tpe", "maximize", trials=20, seed=0)
    known: list[FrozenTrial] = []
    for _ in range(12):
        values = proposer.propose(known)
        if values is None:
            break
        assert ("references.lambda" in values) == (values["references.name"] == "ccp")
        known.append(finished(space, values, score=0.5))
    assert {trial.params["references.name"] for trial in known} == {"batch", "ccp"}


def test_a_finite_space_ends_when_every_point_was_tried() -> None:
    search = {"references.proxies": {"int": [1, 3]}, "references.pool_size": {"choice": [4, 8]}}
    space = space_of(search, "references.proxies=2", "references.pool_size=4")
    assert size_of(space) == 6
    proposer = Proposer(space, "tpe", "maximize", trials=20, seed=0)
    known: list[FrozenTrial] = []
    while (values := proposer.propose(known)) is not None:
        known.append(finished(space, values, score=0.1))
    assert len(known) == 6


def test_trials_that_run_are_known_to_the_sampler() -> None:
    space = load_experiment("glyphs-ccp").space
    running = as_template(space, space.reference_point, {"role": "reference"})
    assert running.state == TrialState.RUNNING
    values = Proposer(space, "tpe", "maximize", trials=12, seed=0).propose([running])
    assert values != dict(space.reference_point)


def test_rules_that_leave_no_room_are_an_error_with_a_remedy() -> None:
    space = load_experiment("glyphs-ccp").space
    impossible = SearchSpace.build(
        load_experiment("glyphs-ccp").to_dict()
        | {"require": ["references.pool_size >= 16 * references.proxies + 1"], "reference_point": {}}
    )
    assert space.parameters == impossible.parameters
    with pytest.raises(UserError, match="Widen the bounds or drop a rule"):
        Proposer(impossible, "random", "maximize", trials=5, seed=0).propose([])
