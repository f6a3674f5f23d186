"""Several ranges for one key, and a balanced key."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dmltune.errors import UserError
from dmltune.experiment import Experiment, load_experiment

RANGES = """
extends: cub
search:
  loss.name: {choice: [contrastive, margin, multi_similarity, proxy_anchor]}
  loss.alpha:
    - {float: [0.05, 0.5], when: {loss.name: margin}}
    - {float: [1, 20], log: true, when: {loss.name: [multi_similarity]}}
    - {float: [8, 64], log: true, when: {loss.name: proxy_anchor}}
  loss.neg_margin: {float: [0.2, 0.9], when: {loss.name: contrastive}}
  optimizer.lr: {float: [1.0e-6, 1.0e-4], log: true}
balanced: loss.name
"""
BOUNDS = {"margin": (0.05, 0.5), "multi_similarity": (1.0, 20.0), "proxy_anchor": (8, 64)}


@pytest.fixture
def experiment(write: Callable[..., Path]) -> Experiment:
    write("mine", RANGES)
    return load_experiment("mine")


def test_each_loss_draws_from_its_own_range(experiment: Experiment) -> None:
    generator, seen = random.Random(1), set()
    for _ in range(80):
        values = experiment.space.draw(generator)
        if low_high := BOUNDS.get(values["loss.name"]):
            assert low_high[0] <= values["loss.alpha"] <= low_high[1]
            experiment.space.validate_point(values)
            assert experiment.point(values).get("loss.alpha") == values["loss.alpha"]
            seen.add(values["loss.name"])
        else:
            assert "loss.alpha" not in values
    assert seen == set(BOUNDS)
    assert experiment.space.names == ("loss.name", "loss.alpha", "loss.neg_margin", "optimizer.lr")


def test_a_value_of_another_range_is_no_trial(experiment: Experiment) -> None:
    point = {"loss.name": "margin", "loss.alpha": 32.0, "optimizer.lr": 1e-5}
    with pytest.raises(UserError, match=r"loss\.alpha must lie in its bounds \[0\.05, 0\.5\]; got 32\.0"):
        experiment.point(point)
    with pytest.raises(UserError, match=r"needs loss\.name: margin or loss\.name: multi_similarity or"):
        experiment.point(
            {"loss.name": "contrastive", "loss.alpha": 2.0, "loss.neg_margin": 0.5, "optimizer.lr": 1e-5}
        )


def test_ranges_and_balance_survive_the_dictionary(experiment: Experiment) -> None:
    assert Experiment.from_dict(experiment.to_dict()) == experiment
    assert experiment.to_dict()["search"]["loss.alpha"][1] == {
        "float": [1.0, 20.0], "log": True, "when": {"loss.name": "multi_similarity"}
    }  # fmt: skip
    assert experiment.fixed().balanced is None
    assert load_experiment("mine", ["loss=triplet"]).balanced is None
    assert load_experiment("mine", ["loss=triplet"]).space.names == ("optimizer.lr",)


def test_the_first_trial_of_a_loss_has_the_reference_point_and_its_presets(experiment: Experiment) -> None:
    own = {choice: experiment.space.own_point(choice) for choice in ("margin", "proxy_anchor")}
    assert own["margin"] == {"loss.name": "margin", "loss.alpha": 0.2, "optimizer.lr": 1e-5}
    assert own["proxy_anchor"] == {"loss.name": "proxy_anchor", "loss.alpha": 32, "optimizer.lr": 1e-5}


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ("[{float: [0, 1], when: {loss.name: triplet}}]", "a list has two ranges at least"),
        ("[{float: [0, 1]}, {float: [0, 2], when: {loss.name: triplet}}]", "may apply together"),
        (
            "[{int: [0, 1], when: {loss.name: [triplet, lifted]}}, {int: [0, 2], when: {loss.name: lifted}}]",
            "the ranges for {loss.name: triplet or lifted} and {loss.name: lifted} may apply together",
        ),
        (
            "[{float: [0, 1], when: {loss.name: triplet}}, {flot: [0, 2], when: {loss.name: lifted}}]",
            "unknown key 'flot' in search.loss.margin; did you mean 'float'?",
        ),
        ("[]", "a list has two ranges at least"),
        ("[0.1, 0.9]", "must be {float: [0.1, 0.9]}, {int: [1, 16]} or {choice: [a, b]}"),
    ],
)
def test_wrong_ranges_are_told(message: Callable[..., str], ranges: str, expected: str) -> None:
    line = message(
        f"extends: cub\nsearch:\n  loss.name: {{choice: [triplet, lifted]}}\n  loss.margin: {ranges}\n"
    )
    assert line.startswith("search_spaces/mine.yaml:4: ")
    assert expected in line


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("balanced=los.name", "'los.name' is not searched; did you mean 'loss.name'?"),
        ("balanced=optimizer.lr", "balanced needs a key with choices and without 'when'; got optimizer.lr"),
        (
            "search.loss.alpha=[{float: [0.1, 0.3], when: {loss.name: margin}},"
            " {float: [1, 9], when: {loss.name: proxy_anchor}}]",
            "the first trial of proxy_anchor: search.loss.alpha: trial 0 would take",
        ),
    ],
)
def test_a_wrong_balance_is_told(experiment: Experiment, change: str, expected: str) -> None:
    assert experiment.balanced
    with pytest.raises(UserError) as caught:
        load_experiment("mine", [change])
    assert expected in str(caught.value)


def test_a_key_with_several_ranges_is_no_condition(message: Callable[..., str]) -> None:
    text: Any = RANGES.replace("balanced: loss.name\n", "")
    line = message(text + "  batch.size: {choice: [8, 16], when: {loss.alpha: 0.2}}\n")
    assert "loss.alpha has several ranges and cannot be a condition" in line


def test_every_loss_of_cub_losses_starts_with_its_setting_and_has_something_to_vary() -> None:
    space = load_experiment("cub-losses").space
    for loss in space["loss.name"].choices:
        own = space.own_point(loss)
        assert space.violated(own) is None
        assert len(own) >= 2, loss
    assert space.own_point("margin")["loss.alpha"] == 0.2
    assert space.own_point("proxy_anchor")["loss.alpha"] == 32.0
    assert space.own_point("triplet")["loss.margin"] == 0.0961


def test_fewer_choices_take_their_ranges_along() -> None:
    losses = "search.loss.name.choice=[margin, multi_similarity, triplet]"
    few = load_experiment("cub-losses", [losses, "reference_point.loss.name=triplet"])
    assert set(few.space.names) == {"loss.name", "loss.margin", "loss.alpha", "loss.beta", "loss.base"}
    assert few.search["loss.margin"] == {
        "float": [0.02, 0.4], "log": True, "when": {"loss.name": "triplet"}
    }  # fmt: skip
    assert len(few.search["loss.alpha"]) == 2
    with pytest.raises(UserError, match=r"loss\.name must be one of its choices; got 'contrastive'"):
        load_experiment("cub-losses", [losses])


def test_a_condition_that_no_layer_took_away_is_still_a_mistake(message: Callable[..., str]) -> None:
    margin = "loss.margin: {int: [0, 1], when: {loss.name: liftd}}"
    line = message(f"extends: cub\nsearch: {{loss.name: {{choice: [triplet, lifted]}}, {margin}}}\n")
    assert "one of its choices; got 'liftd'; did you mean 'lifted'?" in line
