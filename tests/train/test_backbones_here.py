"""Searched backbones whose weights are not on this machine are left out, with a line for each."""

from __future__ import annotations

from pathlib import Path

import pytest

from dmltune.experiment import Experiment, load_experiment
from dmltune.train.backbones_here import backbones_of, only_backbones_here

SPACE = """
extends: glyphs
presets:
  backbone:
    resnet20: {{weights: {folder}/a.safetensors, frozen_bn: true}}
    resnetv2_20: {{weights: {folder}/b.safetensors}}
    bn_inception: {{weights: imagenet}}
backbone: {{name: resnet20, weights: {folder}/a.safetensors, frozen_bn: true}}
search:
  backbone.name: {{choice: [resnet20, resnetv2_20, bn_inception]}}
  optimizer.lr: {{float: [1.0e-4, 1.0e-2], log: true}}
balanced: backbone.name
reference_point: {{backbone.name: resnet20}}
"""


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    monkeypatch.setenv("DMLTUNE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.delenv("DMLTUNE_DATA", raising=False)
    file = tmp_path / "mine.yaml"
    file.write_text(SPACE.format(folder=tmp_path))
    for name in ("a", "b"):
        (tmp_path / f"{name}.safetensors").write_bytes(b"")
    return load_experiment(file)


def choices(experiment: Experiment) -> list[str]:
    return [str(choice) for choice in experiment.space["backbone.name"].choices]


def test_what_is_absent_is_left_out_with_a_line(experiment: Experiment) -> None:
    left, lines = only_backbones_here(experiment, None)
    assert choices(left) == ["resnet20", "resnetv2_20"]
    assert lines == [
        "bn_inception is left out: its weights are not on this machine (dmltune weights fetch bn_inception)"
    ]
    assert left.balanced == "backbone.name"
    assert only_backbones_here(left, None) == (left, [])


def test_another_trial_zero_when_its_backbone_is_absent(experiment: Experiment, tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").unlink()
    left, lines = only_backbones_here(experiment, None)
    assert "backbone.name" not in left.space.names
    assert (left.backbone.name, left.backbone.weights) == ("resnetv2_20", f"{tmp_path}/b.safetensors")
    assert left.reference_experiment().backbone.name == "resnetv2_20"
    assert left.balanced is None
    assert lines[-1] == "resnetv2_20 is the only one left: there is nothing to compare"


def test_a_search_goes_on_with_the_backbones_that_it_began_with(
    experiment: Experiment, tmp_path: Path
) -> None:
    begun, _ = only_backbones_here(experiment, None)
    (tmp_path / "b.safetensors").unlink()
    left, lines = only_backbones_here(experiment, None, begun)
    assert (left, lines) == (begun, [])


def test_each_choice_comes_with_the_weights_of_its_preset(experiment: Experiment, tmp_path: Path) -> None:
    assert list(backbones_of(experiment)) == [
        ("resnet20", f"{tmp_path}/a.safetensors"),
        ("resnetv2_20", f"{tmp_path}/b.safetensors"),
        ("bn_inception", "imagenet"),
    ]
    assert list(backbones_of(load_experiment("cub-sft"))) == [
        ("bn_inception", "imagenet"),
        ("torchvision/googlenet", "imagenet"),
    ]
