"""Where the pixels come from, and that a training was interrupted, changes no bit of any loss."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from data import tiny_layouts

from dmltune.core.fit import fit
from dmltune.core.run import Run
from dmltune.data import cache
from dmltune.data.feed import ImageFeed
from dmltune.experiment import load_experiment
from dmltune.train.build import build_run

SMALL = [
    *("data.size=16", "backbone=resnet20", "backbone.weights=none", "embedding.dim=8", "batch.size=8"),
    *("batch.samples_per_class=2", "optimizer.lr=0.003", "max_steps=40", "validate_every=20"),
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("birds")
    tiny_layouts.write("cub", folder, per_class=3)
    return folder


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("DMLTUNE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "MEMORY", tmp_path)
    yield
    cache._release_memory()


def started(root: Path, augment: str) -> tuple[Run, list[float]]:
    """A new training, and the losses it will have had."""
    experiment = load_experiment("cub", [*SMALL, f"data.augment={augment}"])
    run, losses = build_run(experiment, str(root), torch.device("cpu")), []
    run.objective.register_forward_hook(lambda module, inputs, loss: losses.append(float(loss.detach())))
    return run, losses


def train(run: Run, until: int) -> None:
    for progress in fit(run):
        if progress.step == until:
            break
    assert isinstance(run.feed, ImageFeed)
    run.feed.close()


def test_from_the_pack_from_memory_and_from_files_the_first_twenty_losses_are_the_same(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    for mode in ("none", "disk", "disk", "memory"):  # packs, then finds the pack
        monkeypatch.setenv("DMLTUNE_IMAGE_CACHE", mode)
        run, losses = started(root, "crop_flip")
        train(run, 20)
        seen.append(losses)
    assert len(seen[0]) == len(set(seen[0])) == 20
    assert seen[1:] == [seen[0]] * 3


def test_forty_steps_are_twenty_a_resume_and_twenty_more(root: Path) -> None:
    whole, at_once = started(root, "ms")
    train(whole, 40)
    first, before = started(root, "ms")
    train(first, 20)
    second, after = started(root, "ms")
    second.restore(*first.state())
    train(second, 40)
    assert len(at_once) == 40
    assert before + after == at_once
    for mine, theirs in zip(whole.objective.parameters(), second.objective.parameters(), strict=True):
        assert torch.equal(mine, theirs)
