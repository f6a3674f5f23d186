"""Measuring on the test classes through stored maps gives the points of the model as it is served."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from data import tiny_layouts

from dmltune.core.embedder import Embedder
from dmltune.experiment import Experiment, load_experiment
from dmltune.ledger import LedgerEntry
from dmltune.resources import Locations
from dmltune.store import Store
from dmltune.train.inference import embed, read_embedder
from dmltune.train.measurement import _points, read_measurement
from dmltune.train.orders import Order
from dmltune.train.test_access import open_test, opened_images
from dmltune.train.trial import run_trial

SPACE = """
data: {name: inshop, size: 32, augment: flip, views: 2}
backbone: {name: resnet20, frozen_until: blocks.6}
embedding: {dim: 8}
loss: contrastive
batch: {size: 8, samples_per_class: 2}
optimizer: {lr: 0.01}
max_steps: 4
validate_every: 2
"""
CPU = torch.device("cpu")


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Order, Experiment]:
    (tmp_path / "tiny.yaml").write_text(SPACE)
    tiny_layouts.write("inshop", tmp_path, 8, 4)
    monkeypatch.setenv("DMLTUNE_CACHE", str(tmp_path / "cache"))
    experiment = load_experiment(str(tmp_path / "tiny.yaml"), ["objective.protocol=halves"])
    locations = Locations(Store.at(tmp_path / "store"), tmp_path)
    entry = open_test(experiment, locations, kind="check", study="s", why="w").entry
    order = Order.of("s/0000", experiment, tmp_path / "trial", locations, opening=entry)
    assert list(run_trial(order, CPU))[-1].finished
    return order, experiment


def test_points_through_stored_maps_are_those_of_the_model_as_it_is_served(
    trained: tuple[Order, Experiment], monkeypatch: pytest.MonkeyPatch
) -> None:
    order, experiment = trained
    folder = Path(order.folder)
    assert order.opening is not None
    images = opened_images(experiment, order.data_root, LedgerEntry.from_dict(order.opening))
    embedder, _, _ = read_embedder(folder / "best")
    served_ND = embed(embedder, images, range(len(images)), 32, CPU)
    torch.testing.assert_close(read_measurement(folder, "emb")[0]["emb"], served_ND, atol=1e-5, rtol=1e-5)

    def prefix(self: Embedder, images_B3HW: torch.Tensor) -> torch.Tensor:
        raise AssertionError("the maps of the prefix are stored, for all models that share it")

    monkeypatch.setattr(Embedder, "at_cut", prefix)
    stored_ND = _points(read_embedder(folder / "best")[0], images, experiment, CPU)
    torch.testing.assert_close(stored_ND, served_ND, atol=1e-5, rtol=1e-5)
