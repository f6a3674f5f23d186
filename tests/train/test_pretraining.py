"""Backbone weights from a short training of another space: made once, the same for every trial."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from dmltune.core.fit import fit
from dmltune.errors import UserError
from dmltune.experiment import Experiment, load_experiment
from dmltune.train import pretraining
from dmltune.train.build import build_run

TILES = """
data: {name: digits, size: 16}
embedding: {dim: 8}
loss: contrastive
batch: {size: 8, samples_per_class: 4}
max_steps: 3
validate_every: 3
objective: {protocol: halves}
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DMLTUNE_CACHE", str(tmp_path / "cache"))


def space(folder: Path, name: str, changes: str = "") -> Path:
    (folder / f"{name}.yaml").write_text(TILES + changes)
    return folder / f"{name}.yaml"


def started_from(experiment: Experiment) -> dict[str, Tensor]:
    run = build_run(experiment.reference_experiment(), None, torch.device("cpu"))
    run.feed.close()  # type: ignore[attr-defined]
    return {name: value.clone() for name, value in run.objective.embedder.backbone.state_dict().items()}


def test_every_seed_starts_from_the_best_backbone_of_one_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiles = space(tmp_path, "tiles")
    run = build_run(load_experiment(tiles), None, torch.device("cpu"))
    list(fit(run))
    expected = run.objective.embedder.backbone.state_dict()
    changes = f"backbone: {{weights: 'space:{tiles}'}}"
    mine = load_experiment(space(tmp_path, "mine", changes), ["data.size=24", "embedding.dim=4"])
    first = started_from(mine)
    assert first.keys() == expected.keys()
    for name, value in first.items():
        assert torch.equal(value, expected[name]), name

    def refuse(*args: object) -> None:
        raise AssertionError("trained a second time")

    monkeypatch.setattr(pretraining, "_train", refuse)
    again = started_from(mine.with_values({"seed": 3}))
    assert all(torch.equal(value, expected[name]) for name, value in again.items())
    other = {"backbone.name": "resnetv2_20", "backbone.weights": mine.backbone.weights}
    with pytest.raises(AssertionError, match="a second time"):  # another backbone is another training
        started_from(mine.with_values(other))
    assert mine.backbone.weights == f"space:{tiles}"  # what is stored names no folder of the cache


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ("backbone: {weights: 'space:glyphs'}", "takes its weights from a space itself"),
        ("objective: {protocol: conventional}", "is monitored on test classes"),
    ],
)
def test_a_space_that_cannot_give_weights_is_one_line(tmp_path: Path, changes: str, message: str) -> None:
    tiles = tmp_path / "tiles.yaml"
    tiles.write_text(TILES.replace("objective: {protocol: halves}\n", "") + changes)
    mine = load_experiment(space(tmp_path, "mine", f"backbone: {{weights: 'space:{tiles}'}}"))
    with pytest.raises(UserError, match=message) as error:
        started_from(mine)
    assert "\n" not in str(error.value)


def test_an_unknown_space_has_the_nearest_name(tmp_path: Path) -> None:
    mine = load_experiment(space(tmp_path, "mine", "backbone: {weights: 'space:glyph-tile'}"))
    with pytest.raises(UserError, match="no search space 'glyph-tile'; did you mean 'glyph-tiles'"):
        started_from(mine)
