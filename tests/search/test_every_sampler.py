"""What every sampler keeps. A new file in dmltune/search/samplers is found here."""

from __future__ import annotations

import json
from typing import Any

import optuna
import pytest
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, create_trial

from dmltune.core import components
from dmltune.errors import UserError
from dmltune.experiment import load_experiment
from dmltune.search import samplers
from dmltune.search.sampling import Proposer, distribution

optuna.logging.set_verbosity(optuna.logging.ERROR)
SPACE = load_experiment("glyphs-ccp").space
NAMES = components.names(samplers.PACKAGE)


def finished(values: dict[str, Any], attributes: dict[str, Any], score: float) -> FrozenTrial:
    ranges = {parameter.name: distribution(parameter) for parameter in SPACE.parameters}
    return create_trial(value=score, params=values, distributions=ranges, system_attrs=attributes)


def proposed(name: str, count: int, sessions: bool) -> list[dict[str, Any]]:
    """Return the points of a search with this sampler; with `sessions` every trial is a new process."""

    def proposer(number: int) -> Proposer:
        return Proposer(SPACE, samplers.load(name).build(12, number), "max", number)

    trials: list[FrozenTrial] = []
    state: dict[str, Any] = {}
    proposing = proposer(0)
    for number in range(count):
        proposal = (proposer(number) if sessions else proposing).propose(trials, state)
        assert proposal is not None
        state = json.loads(json.dumps(dict(proposal.study_attributes)))  # a study stores JSON
        attributes = json.loads(json.dumps(dict(proposal.trial_attributes)))
        values = dict(proposal.values)
        score = -abs(values["references.lambda"] - 1e-3) + number * 1e-6
        trials.append(finished(values, attributes, score))
    return [trial.params for trial in trials]


@pytest.mark.parametrize("name", NAMES)
def test_every_sampler_keeps_the_rules_repeats_no_point_and_follows_its_seed(name: str) -> None:
    assert isinstance(samplers.load(name).build(12, 0), BaseSampler)
    points = proposed(name, 15, sessions=False)
    for number, values in enumerate(points):
        assert SPACE.violated(values) is None
        SPACE.validate_point(values)
        assert values not in points[:number]
    assert proposed(name, 3, sessions=False) == points[:3]
    resumed = proposed(name, 6, sessions=True)
    assert all(values not in resumed[:number] for number, values in enumerate(resumed))


def test_an_unknown_sampler_or_parameter_is_an_error() -> None:
    with pytest.raises(UserError, match="no 'tpee' in samplers; did you mean 'tpe'"):
        samplers.load("tpee")
    with pytest.raises(UserError, match="unknown parameter 'startup' in tpe"):
        samplers.load("tpe", startup=3)
    with pytest.raises(UserError, match="startup_trials must be at least 1; got 0"):
        samplers.load("gp", startup_trials=0)
