"""A worker node without images or weights gets them from the driver's node."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from data import tiny_layouts
from support.tiny_spaces import IN_SHOP

from dmltune.core.backbones import bn_inception
from dmltune.data import elsewhere
from dmltune.data.elsewhere import HalfRequest
from dmltune.data.packed import at_size
from dmltune.errors import UserError
from dmltune.experiment import load_experiment
from dmltune.resources import Locations
from dmltune.store import Store
from dmltune.train import driver_files
from dmltune.train.build import both_halves, training_half
from dmltune.train.driver_files import DriverFiles, use_driver_files
from dmltune.train.orders import Order
from dmltune.train.test_access import _test_half, open_test, record_monitoring
from dmltune.train.trial import run_trial
from dmltune.weights.fetching import NotHereError, obtain


class _Method:
    def __init__(self, method: object) -> None:
        self.remote = method


class Actor:
    """DriverFiles in this process, called as an actor is; an answer is its own reference."""

    def __init__(self, files: DriverFiles) -> None:
        self._files = files

    def __getattr__(self, name: str) -> _Method:
        return _Method(getattr(self._files, name))


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Locations]:
    """In-Shop on the driver's node; this node has an empty data root and a cache of its own."""
    root = tmp_path / "driver"
    root.mkdir()
    (tmp_path / "node").mkdir()
    (tmp_path / "tiny.yaml").write_text(IN_SHOP)
    tiny_layouts.write("inshop", root, 16, 4)
    monkeypatch.setenv("DMLTUNE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(driver_files, "_answer", lambda reference: reference)
    locations = Locations(Store.at(tmp_path / "store"), root)
    use_driver_files(Actor(DriverFiles(locations.absolute_root, locations.store.root)))
    yield locations
    use_driver_files(None)
    for cache in (training_half, both_halves, _test_half):
        cache.cache_clear()


def scores(tmp_path: Path, root: Path, protocol: str, opened: Locations | None = None) -> list[object]:
    experiment = load_experiment(str(tmp_path / "tiny.yaml"), [f"objective.protocol={protocol}"])
    entry = None
    if opened:
        entry = open_test(experiment, opened, kind="check", study="s", why="w").entry
    folder = tmp_path / "trials" / f"{protocol}-{root.name}"
    order = Order.of("s/0", experiment, folder, Locations(Store.at(tmp_path / "store"), root), opening=entry)
    reports = list(run_trial(order, torch.device("cpu")))
    return [(report.step, report.score) for report in reports]


def test_a_training_with_images_from_the_driver_equals_one_with_its_own(
    driver: Locations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = scores(tmp_path, tmp_path / "driver", "ablation", opened=driver)
    monkeypatch.setenv("DMLTUNE_CACHE", str(tmp_path / "cache-of-the-node"))
    assert scores(tmp_path, tmp_path / "node", "ablation", opened=driver) == own
    assert list((tmp_path / "cache-of-the-node").glob("inshop-train-*"))
    trials = tmp_path / "trials"
    measured = [trials / f"ablation-{place}" / "test.safetensors" for place in ("driver", "node")]
    assert measured[0].read_bytes()[-2000:] == measured[1].read_bytes()[-2000:]


def test_the_packed_images_of_a_node_are_those_of_the_driver(
    driver: Locations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = HalfRequest("inshop", "train")
    here = at_size(half.here(driver.data_root), 12)
    monkeypatch.setattr(driver_files, "TOGETHER", 2000)  # two or three images in a message
    monkeypatch.setenv("DMLTUNE_CACHE", str(tmp_path / "cache-of-the-node"))
    there = at_size(elsewhere.load(half, tmp_path / "node"), 12)
    assert there.fingerprint == here.fingerprint
    everything = np.arange(len(here))
    for mine, theirs in zip(here.read(everything), there.read(everything), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_test_classes_are_sent_only_after_an_entry_of_the_ledger(driver: Locations, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="test classes of inshop are closed"):
        scores(tmp_path, tmp_path / "node", "conventional")
    experiment = load_experiment(str(tmp_path / "tiny.yaml"), ["objective.protocol=conventional"])
    record_monitoring(experiment, driver, "s")
    assert scores(tmp_path, tmp_path / "node", "conventional")


def test_images_that_no_machine_has_are_an_error_of_one_line(driver: Locations, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="CUB") as caught:
        elsewhere.load(HalfRequest("cub", "train"), tmp_path / "node")
    assert "\n" not in str(caught.value)


def test_weights_are_copied_from_the_driver_before_a_network_is_asked(
    driver: Locations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = bytes(range(256)) * 1000
    digest = hashlib.sha256(content).hexdigest()
    monkeypatch.setattr(bn_inception, "WEIGHTS", replace(bn_inception.WEIGHTS, sha256=digest))
    monkeypatch.setattr(driver_files, "PIECE", 100_000)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setenv("DMLTUNE_OFFLINE", "1")
    with pytest.raises(NotHereError, match="nothing may be fetched"):
        obtain("bn_inception", "imagenet")  # the driver has no such file
    (tmp_path / "driver" / "weights").mkdir()
    (tmp_path / "driver" / "weights" / bn_inception.WEIGHTS.file).write_bytes(content)
    copied = obtain("bn_inception", "imagenet")
    assert copied is not None
    assert copied.parent == tmp_path / "cache" / "weights"
    assert copied.read_bytes() == content
