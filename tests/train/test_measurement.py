"""Measuring on the test classes through stored maps gives the points of the model as it is served."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from data import tiny_layouts

from dmltune.core.embedder import Embedder
from dmltune.data import catalog
from dmltune.experiment import Experiment, load_experiment
from dmltune.ledger import LedgerEntry
from dmltune.report.formatting import metric_name
from dmltune.resources import Locations
from dmltune.store import Store
from dmltune.train.inference import embed, read_embedder, retrieval
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


def test_smaller_test_lists_are_measured_among_their_own_images(tmp_path: Path) -> None:
    folder = tiny_layouts.write("vehicleid", tmp_path, 9, 4)
    lists = folder / "train_test_split"
    rows = (lists / "test_list_2400.txt").read_text().splitlines()
    for size, vehicles in ((800, 3), (1600, 6)):
        (lists / f"test_list_{size}.txt").write_text("\n".join(rows[: 4 * vehicles]))
    large = catalog.load("vehicleid", "test", tmp_path)
    generator = torch.Generator().manual_seed(0)
    emb_ND = torch.randn(len(large), 2, generator=generator) + 0.5 * torch.from_numpy(large.labels_N)[:, None]
    figures = retrieval(emb_ND, large, range(len(large)))
    recalls = set()
    for name, vehicles in (("small", 3), ("medium", 6), ("", 9)):
        inside = [n for n in range(len(large)) if large.labels_N[n] < vehicles]
        assert large.query_N is not None
        gallery = [n for n in inside if not large.query_N[n]]
        hits: dict[int, list[bool]] = {1: [], 5: []}
        for q in (n for n in inside if large.query_N[n]):
            near = sorted(gallery, key=lambda g: float(((emb_ND[g] - emb_ND[q]).double() ** 2).sum()))
            for k, own in hits.items():
                own.append(any(large.labels_N[g] == large.labels_N[q] for g in near[:k]))
        for k, own in hits.items():
            expected = sum(own) / len(own)
            assert figures[f"{name}_recall_at_{k}" if name else f"recall_at_{k}"] == pytest.approx(expected)
            recalls.add(expected)
    assert len(recalls) > 3
    assert metric_name("small_recall_at_5") == "small R@5"
