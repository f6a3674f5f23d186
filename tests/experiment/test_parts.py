"""Presets of a space, and parts of a method that need one another."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from dmltune.errors import UserError
from dmltune.experiment import load_experiment

FILE = "search_spaces/mine.yaml"
Write = Callable[..., Path]
Message = Callable[..., str]
BASE = """\
data: glyphs
loss: triplet
presets:
  loss:
    triplet: {margin: 0.25}
    contrastive: {neg_margin: 0.7}
  references:
    ccp: {proxies: 2, pool_size: 5}
"""


def test_a_preset_fills_what_is_left_open_and_what_is_written_wins(write: Write) -> None:
    write("mine", BASE)
    assert load_experiment("mine").get("loss.margin") == 0.25
    assert load_experiment("mine", ["loss.margin=0.5"]).get("loss.margin") == 0.5
    other = load_experiment("mine", ["loss=contrastive", "references=ccp"])
    assert (other.get("loss.neg_margin"), other.get("references.proxies")) == (0.7, 2)
    assert other.get("references.patience") == 3, "what no preset says has the component's default"


def test_a_space_changes_single_presets_of_the_one_it_extends(write: Write) -> None:
    write("base", BASE)
    write("mine", "extends: base\npresets: {loss: {triplet: {margin: 0.1}}}\n")
    assert load_experiment("mine").get("loss.margin") == 0.1
    assert load_experiment("mine", ["loss=contrastive"]).get("loss.neg_margin") == 0.7


def test_a_trial_that_draws_another_loss_takes_its_preset(write: Write) -> None:
    write("mine", BASE + "search: {loss.name: {choice: [triplet, contrastive]}}\n")
    experiment = load_experiment("mine")
    assert experiment.point({"loss.name": "contrastive"}).get("loss.neg_margin") == 0.7
    assert experiment.point({"loss.name": "triplet"}).get("loss.margin") == 0.25


def test_presets_are_no_setting_of_a_run(write: Write) -> None:
    write("mine", BASE)
    settings = load_experiment("mine").settings()
    assert settings["loss.margin"] == 0.25
    assert not [key for key in settings if key.startswith("presets")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("presets: {loss: {triplet: {margn: 1}}}", "unknown key 'margn' in loss; did you mean 'margin'?"),
        ("presets: {loss: {triplet: {margin: wide}}}", "presets: loss.margin must be a number"),
        ("presets: {loss: {tripled: {margin: 1}}}", "no 'tripled' in losses; did you mean 'triplet'?"),
        ("presets: {los: {triplet: {margin: 1}}}", "unknown key 'los' in presets; did you mean 'loss'?"),
        ("presets: [1]", "presets must be a mapping"),
    ],
)
def test_a_wrong_preset_is_told_with_its_line(message: Message, text: str, expected: str) -> None:
    line = message(f"extends: glyphs\n{text}\n")
    assert line.startswith(f"{FILE}:2: ")
    assert expected in line


def test_a_loss_with_proxies_of_its_own_takes_no_references(message: Message) -> None:
    line = message("extends: glyphs\nloss: proxy_anchor\nreferences: ccp\n")
    assert line == (
        f"{FILE}:3: loss proxy_anchor compares with proxies of its own and takes no references ccp; "
        "use references: batch, or a pair loss such as contrastive."
    )


def test_the_zero_shot_loss_needs_a_pooling_with_attributes(message: Message) -> None:
    line = message("extends: glyphs\nzero_shot: {weight: 0.1}\n")
    assert line.startswith(
        f"{FILE}:2: zero_shot.weight 0.1 needs a pooling with attributes; gap has none; use"
    )
    assert load_experiment("glyphs", ["zero_shot.weight=0.1", "pooling=gsp"]).get("zero_shot.ridge") == 0.05


def test_a_search_never_draws_what_does_not_fit_together(write: Write) -> None:
    search = "{references.name: {choice: [batch, xbm]}, loss.name: {choice: [contrastive, proxy_anchor]}}"
    write("mine", f"extends: glyphs\nsearch: {search}\n")
    space, rng = load_experiment("mine").space, random.Random(0)
    drawn = {tuple(values.values()) for _ in range(40) if (values := space.sample(rng, 100))}
    assert drawn == {("batch", "contrastive"), ("batch", "proxy_anchor"), ("xbm", "contrastive")}


def test_milestones_are_steps(message: Message) -> None:
    assert load_experiment("glyphs", ["optimizer.milestones=[100, 200]"]).optimizer.milestones == (100, 200)
    assert "must be at least 1" in message("extends: glyphs\noptimizer: {milestones: [0]}\n")


def test_a_category_batch_is_of_two(write: Write) -> None:
    with pytest.raises(UserError, match=r"batch\.categories"):
        load_experiment("glyphs", ["batch.categories=3"])
