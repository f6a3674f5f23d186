"""SearchSpace: which points there are, which are allowed, and what a trial is."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dmltune.errors import UserError
from dmltune.experiment import Experiment, load_experiment
from dmltune.experiment.problems import Problem
from dmltune.experiment.space.parameter import Parameter

CONDITIONAL = """
extends: cub
references: ccp
search:
  loss.margin:        {float: [0.1, 0.9], when: {loss.name: contrastive_cosine}}
  loss.neg_margin:    {float: [0.2, 0.9], when: {loss.name: contrastive, references.proxies: [2, 4, 8]}}
  loss.name:          {choice: [contrastive, contrastive_cosine]}
  references.proxies: {choice: [1, 2, 4, 8]}
  references.lambda:  {float: [1.0e-5, 1.0e-1], log: true}
  embedding.dim:      {int: [16, 256], log: true}
"""


@pytest.fixture
def conditional(write: Callable[..., Path]) -> Experiment:
    write("conditional", CONDITIONAL)
    return load_experiment("conditional")


def test_a_key_comes_after_those_it_depends_on(conditional: Experiment) -> None:
    names = conditional.space.names
    assert names.index("loss.name") < names.index("loss.margin")
    assert names.index("references.proxies") < names.index("loss.neg_margin")
    assert len(names) == 6


def test_only_the_keys_whose_conditions_hold_are_active(conditional: Experiment) -> None:
    active = conditional.space.active
    assert "loss.margin" in active({"loss.name": "contrastive_cosine"})
    assert "loss.margin" not in active({"loss.name": "contrastive"})
    assert "loss.neg_margin" in active({"loss.name": "contrastive", "references.proxies": 4})
    assert "loss.neg_margin" not in active({"loss.name": "contrastive", "references.proxies": 1})
    assert "loss.neg_margin" in active({})  # the experiment's own name and proxies decide


def test_a_parameter_of_an_inactive_one_is_inactive(write: Callable[..., Path]) -> None:
    write(
        "mine",
        "extends: cub\nreferences: ccp\nsearch:\n"
        "  loss.name: {choice: [contrastive_cosine, contrastive]}\n"
        "  loss.neg_margin: {choice: [0.5, 0.6], when: {loss.name: contrastive}}\n"
        "  references.proxies: {int: [1, 8], when: {loss.neg_margin: 0.5}}\n"
        "reference_point: {loss.name: contrastive, loss.neg_margin: 0.5}\n",
    )
    active = load_experiment("mine").space.active
    assert active({"loss.name": "contrastive_cosine", "loss.neg_margin": 0.5}) == ("loss.name",)
    assert len(active({"loss.name": "contrastive", "loss.neg_margin": 0.5})) == 3


def test_the_reference_point_has_the_active_keys_and_the_experiments_own_values(
    conditional: Experiment,
) -> None:
    assert dict(conditional.space.reference_point) == {
        "loss.name": "contrastive",
        "references.proxies": 8,
        "loss.neg_margin": 0.3841,
        "references.lambda": 2e-4,
        "embedding.dim": 128,
    }


def test_every_random_point_is_a_trial_that_can_be_built(conditional: Experiment) -> None:
    generator = random.Random(5)
    seen = set()
    for _ in range(60):
        values = conditional.space.draw(generator)
        if conditional.space.violated(values) is None:
            trial = conditional.point(values)
            assert not trial.searchable
            assert all(trial.get(name) == value for name, value in values.items())
            assert tuple(values) == conditional.space.active(values)
            seen.add(trial.loss.name)
    assert seen == {"contrastive", "contrastive_cosine"}


def test_a_component_name_and_its_parameters_change_together(conditional: Experiment) -> None:
    values = {"loss.margin": 0.3, "loss.name": "contrastive_cosine"}
    trial = conditional.with_values(values)
    assert trial.loss.parameters == {"margin": 0.3}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"references.lambda": 5.0}, "references.lambda must lie in its bounds [1e-05, 0.1]; got 5.0."),
        ({"references.lambda": "x"}, "references.lambda must be a number; got the text 'x'."),
        ({"references.proxies": 3}, "references.proxies must be one of its choices; got 3"),
        ({"references.proxies": None}, "references.proxies must be one of its choices; got null"),
        ({"embedding.dim": 20.5}, "embedding.dim must be a whole number; got 20.5."),
        ({"embedding.dim": True}, "embedding.dim must be a whole number; got true."),
        ({"loss.margin": 0.3}, "'loss.margin' does not apply here: it needs loss.name: contrastive_cosine."),
        ({"loss.nam": "x"}, "'loss.nam' is not searched; did you mean 'loss.name'?"),
    ],
)
def test_a_point_outside_the_space_is_no_trial(
    conditional: Experiment, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError) as caught:
        conditional.point({**conditional.space.reference_point, **change})
    assert message in str(caught.value)


def test_an_incomplete_point_is_no_trial(conditional: Experiment) -> None:
    values = dict(conditional.space.reference_point)
    del values["embedding.dim"]
    with pytest.raises(UserError, match=r"a trial needs a value for 'embedding\.dim'"):
        conditional.point(values)


def test_require_is_judged_over_the_values_and_the_rest_of_the_experiment() -> None:
    space = load_experiment("cub-ccp", ["references.pool_size=9"]).space
    assert space.violated({"references.lambda": 1e-3, "references.proxies": 9}) is None
    broken = space.violated({"references.lambda": 1e-3, "references.proxies": 10})
    assert broken is not None
    assert "references.pool_size >= references.proxies does not hold for references.pool_size = 9" in broken


def test_a_rule_about_a_key_that_does_not_apply_is_not_asked(write: Callable[..., Path]) -> None:
    write("mine", CONDITIONAL + "require: loss.margin + references.lambda < 0.5\n")
    space = load_experiment("mine").space
    point = dict(space.reference_point)
    assert space.violated(point) is None
    cosine = {name: value for name, value in point.items() if name != "loss.neg_margin"}
    assert space.violated({**cosine, "loss.name": "contrastive_cosine", "loss.margin": 0.4}) is None
    assert space.violated({**cosine, "loss.name": "contrastive_cosine", "loss.margin": 0.6}) is not None


def test_what_a_component_refuses_is_a_violated_rule_without_require() -> None:
    space = load_experiment("cub-ccp", ["require=null"]).space
    values = {"references.lambda": 1e-3, "references.proxies": 9, "references.pool_size": 3}
    assert "pool_size must be at least proxies" in str(space.violated(values))


def test_a_searched_batch_size_obeys_the_samples_per_class() -> None:
    space = load_experiment("cub-ccp", ["search.batch.size={int: [8, 64]}"]).space
    point = dict(space.reference_point)
    assert space.violated({**point, "batch.size": 40}) is None
    assert "multiple of batch.samples_per_class; got 41 and 4" in str(
        space.violated({**point, "batch.size": 41})
    )


def test_the_baseline_takes_the_reference_point_and_its_own_changes() -> None:
    experiment = load_experiment(
        "glyphs-ccp", ["search.loss.neg_margin={float: [0.2, 0.9]}", "reference_point.loss.neg_margin=0.6"]
    )
    baseline = experiment.baseline_experiment()
    assert baseline is not None
    assert (baseline.references.name, baseline.references.parameters) == ("batch", {})
    assert baseline.get("loss.neg_margin") == 0.6
    assert not baseline.searchable
    assert load_experiment("glyphs").baseline_experiment() is None


def test_a_copy_has_a_space_of_its_own(conditional: Experiment) -> None:
    assert conditional.space
    assert not conditional.fixed().space
    assert not conditional.reference_experiment().space
    assert conditional.with_values({"max_steps": 300}).space.fixed["max_steps"] == 300


def test_an_experiment_without_search_has_an_empty_space() -> None:
    space = load_experiment("glyphs").space
    assert not space
    assert space.active({}) == ()
    assert dict(space.reference_point) == {}
    assert space.violated({}) is None


@pytest.mark.parametrize(
    "spec",
    [
        {"float": [1e-5, 0.1], "log": True},
        {"float": [-2.0, 3.0]},
        {"int": [1, 16]},
        {"int": [1, 3], "log": True},
        {"choice": ["a", 1, 1.5, True, None]},
        {"float": [0.0, 1.0], "when": {"loss.name": ["a", "b"], "batch.size": 32}},
    ],
)
def test_a_parameter_is_its_specification_and_draws_inside_its_bounds(spec: dict[str, Any]) -> None:
    parameter = Parameter.parse("x.y", spec)
    assert parameter.to_dict() == spec
    generator = random.Random(1)
    drawn = [parameter.sample(generator) for _ in range(300)]
    for value in drawn:
        assert parameter.accept(value, "") == value
    if parameter.kind == "int":
        assert {parameter.low, parameter.high} <= set(drawn)


def test_log_draws_every_decade_equally_often() -> None:
    parameter = Parameter.parse("x.y", {"float": [1e-4, 1.0], "log": True})
    generator = random.Random(2)
    drawn = [parameter.sample(generator) for _ in range(4000)]
    for decade in range(-4, 0):
        share = sum(10.0**decade <= value < 10.0 ** (decade + 1) for value in drawn) / len(drawn)
        assert 0.22 < share < 0.28


def test_true_is_not_one_among_choices() -> None:
    parameter = Parameter.parse("x.y", {"choice": [1, True]})
    assert parameter.accept(True, "") is True
    with pytest.raises(Problem):
        Parameter.parse("x.y", {"choice": [1, 2]}).accept(True, "")
