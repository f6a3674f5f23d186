"""Presets: what a component brings with it, and what is nearer than that."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dmltune.errors import UserError
from dmltune.experiment import Experiment, load_experiment

MINE = """
data: cub
loss: contrastive
batch: {size: 32, samples_per_class: 4}
optimizer: {lr: 1.0e-3, proxy_factor: 2.0}
presets:
  loss:
    proxy_nca:
      temperature: 0.2
      batch: {samples_per_class: 1}
      optimizer: {proxy_factor: 100, warmup_new_layers: 9}
      pooling: {gsp: {epsilon: 0.5}}
    triplet: {margin: 0.3, backbone: {name: resnetv2_20, weights: none}}
  pooling: {gsp: {epsilon: 3.0, prototypes: 8}}
"""
SEARCH = (
    "search: {loss.name: {choice: [contrastive, proxy_nca, triplet]}, pooling.name: {choice: [gap, gsp]}}\n"
)


def facts(run: Experiment) -> tuple[Any, ...]:
    return (
        run.batch.samples_per_class,
        run.optimizer.proxy_factor,
        run.optimizer.warmup_new_layers,
        run.pooling.parameters.get("epsilon"),
        run.backbone.name,
    )


USUAL = (4, 2.0, 0, None, "resnet20")
NCA = (1, 100.0, 9, None, "resnet20")


def test_a_loss_of_a_file_or_an_override_brings_its_settings(write: Callable[..., Path]) -> None:
    write("mine", MINE)
    assert facts(load_experiment("mine")) == USUAL
    chosen = load_experiment("mine", ["loss=proxy_nca"])
    assert facts(chosen) == NCA
    assert chosen.loss.parameters == {"temperature": 0.2}
    assert chosen.optimizer.lr == 1e-3
    write("child", "extends: mine\nloss: proxy_nca\n")
    assert facts(load_experiment("child")) == NCA


def test_a_value_above_the_preset_is_nearer_and_one_below_is_not(write: Callable[..., Path]) -> None:
    write("mine", MINE)
    override = load_experiment("mine", ["batch.samples_per_class=2", "loss=proxy_nca"])
    assert facts(override) == (2, 100.0, 9, None, "resnet20")
    assert facts(override.with_values({"loss": "contrastive"})) == (2, 2.0, 0, None, "resnet20")
    write("child", "extends: mine\nloss: proxy_nca\noptimizer: {proxy_factor: 5.0}\n")
    assert facts(load_experiment("child")) == (1, 5.0, 9, None, "resnet20")
    write("grandchild", "extends: child\npresets: {loss: {proxy_nca: {optimizer: {proxy_factor: 7.0}}}}\n")
    assert facts(load_experiment("grandchild")) == (1, 7.0, 9, None, "resnet20")


def test_a_loss_decides_a_parameter_of_the_pooling(write: Callable[..., Path]) -> None:
    write("mine", MINE)
    epsilon = {
        loss: load_experiment("mine", [f"loss={loss}", "pooling=gsp"]).get("pooling.epsilon")
        for loss in ("contrastive", "proxy_nca")
    }
    assert epsilon == {"contrastive": 3.0, "proxy_nca": 0.5}
    explicit = load_experiment("mine", ["loss=proxy_nca", "pooling=gsp", "pooling.epsilon=9.0"])
    assert explicit.get("pooling.epsilon") == 9.0
    assert explicit.get("pooling.prototypes") == 8


def test_a_change_of_the_loss_takes_back_what_the_old_one_brought(write: Callable[..., Path]) -> None:
    write("mine", MINE)
    run = load_experiment("mine", ["loss=proxy_nca", "pooling=gsp"])
    assert facts(run.with_values({"loss.name": "contrastive"})) == (4, 2.0, 0, 3.0, "resnet20")
    other = run.with_values({"loss.name": "triplet", "pooling.name": "gap"})
    assert facts(other) == (4, 2.0, 0, None, "resnetv2_20")
    assert facts(other.with_values({"loss": {"name": "proxy_nca"}, "batch.samples_per_class": 8})) == (
        *(8, 100.0, 9, None, "resnet20"),
    )


def test_every_trial_has_the_settings_of_its_loss_and_the_rules_see_them(write: Callable[..., Path]) -> None:
    write("mine", MINE + SEARCH + "reference_point: {pooling.name: gap}\nbaseline: {loss: proxy_nca}\n")
    experiment = load_experiment("mine")
    expected = {"contrastive": USUAL, "proxy_nca": NCA, "triplet": (*USUAL[:4], "resnetv2_20")}
    epsilon = {"contrastive": 3.0, "proxy_nca": 0.5, "triplet": 3.0}
    generator = random.Random(1)
    for _ in range(30):
        values = experiment.space.draw(generator)
        run, view = experiment.point(values), experiment.space.view(values)
        loss, pooling = values["loss.name"], values["pooling.name"]
        wanted = list(expected[loss])
        wanted[3] = epsilon[loss] if pooling == "gsp" else None
        assert facts(run) == tuple(wanted)
        settings = run.settings()
        assert {key: view[key] for key in settings if key in view} == {
            key: settings[key] for key in settings if key in view
        }
        assert {"batch.samples_per_class", "loss.name", "backbone.name"} <= view.keys()
    baseline = experiment.baseline_experiment()
    assert baseline is not None
    assert facts(baseline) == NCA
    assert "warmup_new_layers must be below max_steps" in str(
        load_experiment("mine", ["max_steps=9", "validate_every=3", "baseline=null"]).space.violated(
            {"loss.name": "proxy_nca", "pooling.name": "gap"}
        )
    )


def test_an_experiment_is_its_dictionary(write: Callable[..., Path]) -> None:
    write("mine", MINE + SEARCH)
    for overrides in ([], ["loss=proxy_nca"], ["optimizer.proxy_factor=3.0", "loss=proxy_nca"]):
        experiment = load_experiment("mine", overrides)
        assert Experiment.from_dict(experiment.to_dict()) == experiment
        assert Experiment.from_validated(experiment.to_dict()) == experiment
    program = Experiment.from_dict({**load_experiment("glyphs").to_dict(), "presets": PRESETS})
    assert facts(program)[:3] == (4, 1.0, 0)  # a program's own values are nearer


PRESETS = {"loss": {"contrastive": {"batch": {"samples_per_class": 2}}}}


def test_presets_that_nothing_chooses_are_no_other_configuration(write: Callable[..., Path]) -> None:
    write(
        "mine", MINE + "search: {optimizer.lr: {float: [0.1, 1.0]}}\nreference_point: {optimizer.lr: 0.5}\n"
    )
    other = ["presets.loss.proxy_nca.optimizer.proxy_factor=50.0"]
    assert load_experiment("mine").differences(load_experiment("mine", other)) == []
    write("mine", MINE + SEARCH)
    assert load_experiment("mine").differences(load_experiment("mine", other)) == [
        "presets.loss.proxy_nca.optimizer.proxy_factor: 100.0 → 50.0"
    ]


@pytest.mark.parametrize(
    ("presets", "expected"),
    [
        ("{loss: {triplet: {batch: {samples: 1}}}}", "presets: batch.unknown key 'samples'"),
        ("{loss: {triplet: {batch: {size: 1}}}}", "presets: batch.size must be at least 2; got 1."),
        ("{loss: {triplet: {optimizer: {name: sgd}}}}", "a preset sets no optimizer.name"),
        ("{loss: {triplet: {batch: 4}}}", "presets.loss.triplet.batch must be a mapping of keys; got 4."),
        ("{loss: {triplet: {pooling: {gsp: {mu: 2.0}}}}}", "presets: pooling.mu must be"),
        ("{loss: {triplet: {pooling: {gspp: {mu: 0.2}}}}}", "did you mean 'gsp'"),
        ("{loss: {triplet: {data: {size: 8}}}}", "presets: unknown key 'data'"),
        ("{data: {cub: {size: 8}}}", "unknown key 'data' in presets"),
        ("{backbone: {resnet20: {frozen: 1}}}", "presets: backbone.unknown key 'frozen'"),
    ],
)
def test_a_wrong_preset_is_told_with_its_line(
    message: Callable[..., str], presets: str, expected: str
) -> None:
    line = message(f"extends: glyphs\n\npresets: {presets}\n")
    assert line.startswith("search_spaces/mine.yaml:3: ")
    assert expected in line


# thesis §3.3.2.1; an epoch of 32 images a step, of 2/3 of the training images of the data set
@pytest.mark.parametrize(("space", "epoch"), [("cub", 122), ("cars", 168), ("inshop", 539), ("sop", 1241)])
def test_losses_with_proxies_have_the_settings_of_the_thesis(space: str, epoch: int) -> None:
    for loss in ("proxy_anchor", "proxy_nca", "soft_triple"):
        run = load_experiment(space, [f"loss={loss}"])
        assert facts(run)[:3] == (1, 100.0, epoch)
        pooled = load_experiment(f"{space}-gsp", [f"loss={loss}"]).reference_experiment()
        assert (pooled.get("pooling.epsilon"), pooled.zero_shot.weight) == (0.5, 0.1)
        assert facts(pooled)[:3] == (1, 100.0, epoch)
    pair = load_experiment(f"{space}-gsp").reference_experiment()
    assert (pair.get("pooling.epsilon"), *facts(pair)[:3]) == (5.0, 4, 1.0, 0)


def test_sft_trains_two_losses_on_inception_v2_and_two_on_googlenet() -> None:
    experiment = load_experiment("cub-sft")
    backbones = {
        loss: experiment.point(experiment.space.own_point(loss)).backbone.name
        for loss in experiment.space["loss.name"].choices
    }
    assert backbones == {
        **dict.fromkeys(("multi_similarity", "ranked_list"), "bn_inception"),
        **dict.fromkeys(("triplet", "n_pair"), "torchvision/googlenet"),
    }
    with pytest.raises(UserError, match="unknown key 'nonsense'"):
        load_experiment("cub", ["presets.loss.triplet.nonsense=1"])
