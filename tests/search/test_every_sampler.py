"""The contract of every sampler: any file of dmltune/search/samplers is found and tested."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pytest
from optuna.distributions import FloatDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from dmltune.core import components
from dmltune.errors import UserError
from dmltune.experiment import SearchSpace, load_experiment
from dmltune.search import samplers
from dmltune.search.auto_sampler import suits_gp
from dmltune.search.cma_sampler import new_optimiser, plain, restored
from dmltune.search.sampling import Proposal, Proposer, as_template

NAMES = components.names(samplers.PACKAGE)
OVERRIDES = [
    "search.loss.name={choice: [contrastive, triplet]}",
    "search.loss.margin={float: [0.01, 0.5], log: true, when: {loss.name: triplet}}",
]


def space() -> SearchSpace:
    """Numbers, a logarithm, a choice with a condition, and the rule pool_size >= proxies."""
    return load_experiment("glyphs-ccp", OVERRIDES).space


def score(values: Mapping[str, Any]) -> float:
    numbers = [value for value in values.values() if isinstance(value, float)]
    return -sum((value - 0.3) ** 2 for value in numbers)


def ended(space: SearchSpace, proposal: Proposal, number: int) -> FrozenTrial:
    """The trial as the engine tells it: every third was stopped, and its value is an estimate."""
    template = as_template(space, proposal, {})
    return create_trial(
        state=TrialState.COMPLETE,
        value=score(proposal.values),
        params=template.params,
        distributions=template.distributions,
        user_attrs={"estimate_sd": 0.2 if number % 3 == 2 else 0.01},
        system_attrs=template.system_attrs,
    )


def proposals(
    name: str,
    seed: int,
    count: int = 9,
    workers: int = 1,
    of: SearchSpace | None = None,
    mode: Literal["max", "min"] = "max",
) -> list[dict[str, Any]]:
    """Points in their order. With several workers the newest trials still run when the next is proposed."""
    of = of or space()
    sampler = samplers.load(name)
    trials: list[FrozenTrial] = []
    points: list[Proposal] = []
    study_attributes: dict[str, Any] = {}
    for number in range(count):
        # a proposer of its own for each, and attributes that went through JSON: every proposal is a resume
        proposer = Proposer(of, lambda number: sampler.build(count, number), mode, seed)
        proposal = proposer.propose(trials, study_attributes)
        if proposal is None:
            break
        study_attributes = json.loads(json.dumps({**study_attributes, **proposal.study_attributes}))
        points.append(proposal)
        trials.append(as_template(of, proposal, {}))
        if number >= workers - 1:
            over = number - workers + 1
            trials[over] = ended(of, points[over], over)
    return [dict(point.values) for point in points]


def small(search: dict[str, Any], *overrides: str) -> SearchSpace:
    experiment = load_experiment("glyphs-ccp", ["require=[]", "reference_point={}", *overrides])
    return SearchSpace.build(experiment.to_dict() | {"search": search, "reference_point": {}})


def numeric() -> SearchSpace:
    return small({"loss.neg_margin": {"float": [0.0, 1.0]}, "loss.pos_margin": {"float": [0.0, 1.0]}})


@pytest.mark.parametrize("name", NAMES)
def test_its_points_keep_every_rule_are_new_and_repeat_with_the_seed(name: str) -> None:
    points = proposals(name, seed=3, workers=2)
    for point in points:
        space().validate_point(point)
        assert points.count(point) == 1
    assert points == proposals(name, seed=3, workers=2)
    if name != "grid":
        assert points != proposals(name, seed=4, workers=2)


@pytest.mark.parametrize("name", NAMES)
def test_it_goes_through_a_finite_space_without_a_repetition(name: str) -> None:
    search = {"references.proxies": {"int": [1, 3]}, "references.pool_size": {"choice": [4, 8]}}
    finite = small(search, "references.proxies=2", "references.pool_size=4")
    points = proposals(name, seed=0, count=10, workers=2, of=finite)
    assert len({tuple(point.values()) for point in points}) == len(points) == 6


@pytest.mark.parametrize("name", ["auto", "cmaes", "gp", "tpe"])
def test_it_learns_from_the_scores_in_both_directions(name: str) -> None:
    def median_score(mode: Literal["max", "min"]) -> float:
        points = proposals(name, seed=1, count=40, workers=3, of=numeric(), mode=mode)
        return float(np.median(list(map(score, points[20:]))))  # a few points may explore

    # random points have medians of about -0.15 in both directions
    assert median_score("max") > -0.08
    assert median_score("min") < -0.4


def test_auto_is_the_gaussian_process_on_numbers_and_tpe_with_conditions() -> None:
    assert proposals("auto", seed=2, count=14, of=numeric()) == proposals(
        "gp", seed=2, count=14, of=numeric()
    )
    conditional = proposals("auto", seed=2, count=14)
    assert conditional[-1] != proposals("gp", seed=2, count=14)[-1]
    floats = {f"x{index}": FloatDistribution(0, 1) for index in range(50)}
    params = dict.fromkeys(floats, 0.5)
    trial = create_trial(value=1.0, params=params, distributions=floats)
    fewer = create_trial(value=1.0, params={"x0": 0.5}, distributions={"x0": floats["x0"]})
    assert not suits_gp([trial])
    assert suits_gp([fewer, fewer])
    assert suits_gp([])
    assert not suits_gp([fewer, trial])


def test_qmc_takes_the_points_of_one_sequence_which_are_more_even_than_random_ones() -> None:
    points = np.array([list(point.values()) for point in proposals("qmc", seed=5, count=16, of=numeric())])
    # 16 points of a Sobol sequence: one in each cell of the 4 × 4 grid, and of every 16th of each axis
    assert len({tuple(cell) for cell in (points * 4).astype(int)}) == 16
    for column in points.T:
        assert len(set((column * 16).astype(int))) == 16


def test_the_grid_has_every_combination_of_choices_and_levels() -> None:
    mixed = small(
        {
            "optimizer.lr": {"float": [1e-4, 1e-2], "log": True},
            "references.proxies": {"int": [1, 2]},
            "loss.neg_margin": {"float": [0.2, 0.8]},
        },
        "references.proxies=2",
    )
    points = proposals("grid", seed=0, count=32, workers=3, of=mixed)
    assert len({tuple(point.values()) for point in points}) == 32
    assert sorted({point["loss.neg_margin"] for point in points}) == [0.2, 0.4, 0.6, 0.8]
    rates = sorted({point["optimizer.lr"] for point in points})
    assert rates == pytest.approx([1e-4, 10 ** (-10 / 3), 10 ** (-8 / 3), 1e-2])


def test_cmaes_continues_from_its_stored_state_as_if_it_had_not_stopped() -> None:
    """The state goes through JSON after every generation; mean, step and covariance stay those of one run."""
    rng = np.random.default_rng(0)
    one = new_optimiser(np.array([0.4, 0.5, 0.6]))
    resumed = new_optimiser(np.array([0.4, 0.5, 0.6]))
    for _ in range(12):
        points = np.clip(one.mean + 0.1 * rng.normal(size=(one.population_size, 3)), 0, 1)
        told = [(point, float(np.sum((point - 0.2) ** 2 * [1, 5, 20]))) for point in points]
        again = restored(json.loads(json.dumps(plain(resumed))), 3)
        assert again is not None
        one.tell(list(told))
        again.tell(list(told))
        resumed = again
        for mine, other in ((one._C, again._C), (one.mean, again.mean), (one._sigma, again._sigma)):
            np.testing.assert_allclose(mine, other, rtol=1e-9)
        one.reseed_rng(1)
        resumed.reseed_rng(1)
        np.testing.assert_allclose(one.ask(), resumed.ask(), rtol=1e-9)
    assert resumed.generation == 12
    assert restored(plain(resumed), 4) is None


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
