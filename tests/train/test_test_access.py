"""Test classes are read with an entry of the test ledger alone; search and train have none."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from data import tiny_layouts
from support.tiny_spaces import IN_SHOP

import dmltune
from dmltune.data import catalog, splits
from dmltune.errors import UserError
from dmltune.experiment import load_experiment
from dmltune.ledger import FILE, Ledger, LedgerEntry
from dmltune.resources import Locations
from dmltune.store import Store
from dmltune.train.build import training_images, validation_split
from dmltune.train.measurement import is_measured, read_measurement
from dmltune.train.orders import Order
from dmltune.train.test_access import open_test, opened_images, record_monitoring
from dmltune.train.trial import run_trial

PACKAGE = Path(dmltune.__file__).parent
READ_ALONE = """
import json, sys
from pathlib import Path
import dmltune.store
opened = set()
sys.addaudithook(lambda event, args: opened.add(str(args[0])) if event == "open" else None)
import dmltune
root, steps = Path(sys.argv[1]), []
places = {"store": dmltune.store.Store.at(root / "store"), "data_root": root}
for protocol in sys.argv[2:]:
    experiment = dmltune.load_experiment(str(root / "tiny.yaml"), [f"objective.protocol={protocol}"])
    steps.append(list(dmltune.train(experiment, name=protocol, **places))[-1].step)
print(json.dumps([steps, sorted(opened)]))
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In-Shop, tiny: every image a file of its own."""
    (tmp_path / "tiny.yaml").write_text(IN_SHOP)
    tiny_layouts.write("inshop", tmp_path, 16, 4)
    monkeypatch.setenv("DMLTUNE_CACHE", str(tmp_path / "cache"))
    return tmp_path


def locations(root: Path) -> Locations:
    return Locations(Store.at(root / "store"), root)


def order(root: Path, protocol: str, opening: LedgerEntry | None = None) -> Order:
    experiment = load_experiment(str(root / "tiny.yaml"), [f"objective.protocol={protocol}"])
    folder = root / "trials" / f"{protocol}{'' if opening is None else '-opened'}"
    return Order.of("s/0000", experiment, folder, locations(root), opening=opening)


def opened(root: Path) -> LedgerEntry:
    experiment = load_experiment(str(root / "tiny.yaml"))
    return open_test(experiment, locations(root), kind="check", study="s", why="w").entry


def test_a_training_reads_no_test_image_whatever_the_protocol(root: Path) -> None:
    test = {str(path) for path in catalog.files("inshop", "test", root)[1]}
    train = {str(path) for path in catalog.files("inshop", "train", root)[1]}
    assert len(test) > 10
    done = subprocess.run(
        [sys.executable, "-c", READ_ALONE, str(root), *splits.PARTITIONS],
        capture_output=True, text=True, env=os.environ, check=True,
    )  # fmt: skip
    steps, read = json.loads(done.stdout)
    assert steps == [2] * len(splits.PARTITIONS)
    assert train & set(read)  # the hook sees what is read
    assert not (root / "store" / FILE).exists()
    assert not test & set(read)


def test_a_training_does_not_need_the_test_images(root: Path) -> None:
    entry = opened(root)
    for path in catalog.files("inshop", "test", root)[1]:
        path.unlink()
    reports = list(run_trial(order(root, "fair"), torch.device("cpu")))
    assert reports[-1].finished
    assert not is_measured(root / "trials" / "fair")
    with pytest.raises((UserError, FileNotFoundError)):
        list(run_trial(order(root, "fair", entry), torch.device("cpu")))


def test_only_an_entry_of_the_ledger_for_these_images_opens_them(root: Path) -> None:
    experiment, entry = load_experiment(str(root / "tiny.yaml")), opened(root)
    assert len(opened_images(experiment, str(root), entry)) > 10
    for other in (None, "0123", {"data": "inshop"}, replace(entry, data="cub")):
        with pytest.raises(UserError, match="test classes of inshop are closed to search and train") as error:
            opened_images(experiment, str(root), other)  # type: ignore[arg-type]
        assert "\n" not in str(error.value)
    with pytest.raises(UserError, match="opened other images of inshop: fingerprint 0123, here"):
        opened_images(experiment, str(root), replace(entry, fingerprint="0123"))


def test_the_entry_is_written_before_the_images_are_returned(root: Path) -> None:
    experiment, places = load_experiment(str(root / "tiny.yaml")), locations(root)
    (places.store.root / FILE).mkdir()  # the ledger cannot be written
    with pytest.raises(UserError, match="must be a regular file"):
        open_test(experiment, places, kind="check", study="s", why="w")
    (places.store.root / FILE).rmdir()

    test = open_test(experiment, places, kind="check", study="s", why="w", configurations=["d"])
    assert Ledger(places.store).entries("s") == [test.entry]
    expected = catalog.load("inshop", "test", root).fingerprint
    assert test.entry.fingerprint == test.images.fingerprint == expected
    assert test.entry.configurations == ("d",)


def test_without_data_nothing_is_opened_and_nothing_written(root: Path) -> None:
    store = locations(root).store
    with pytest.raises(UserError):
        experiment = load_experiment(str(root / "tiny.yaml"))
        open_test(experiment, Locations(store, root / "nowhere"), kind="check", study="s", why="w")
    assert Ledger(store).entries() == []


def test_an_opened_order_is_measured_after_its_training_and_only_once(root: Path) -> None:
    entry = opened(root)
    mine = order(root, "fair", entry)
    folder = Path(mine.folder)
    reports = list(run_trial(mine, torch.device("cpu")))
    assert reports[-1].finished
    figures, about = read_measurement(folder, "average_precision", "matched", "emb")
    assert about["opening"] == entry.id
    test = catalog.load("inshop", "test", root)
    assert test.query_N is not None
    assert len(figures["average_precision"]) == int(test.query_N.sum())
    assert figures["emb"].shape == (len(test), 8)
    precision_Q = figures["average_precision"][figures["matched"]]
    assert about["metrics"]["map_at_r"] == pytest.approx(float(precision_Q.mean()))
    written = (folder / "test.safetensors").stat().st_mtime_ns

    assert list(run_trial(mine, torch.device("cpu"))) == [reports[-1]]  # its last report is repeated
    assert (folder / "test.safetensors").stat().st_mtime_ns == written
    (folder / "test.safetensors").unlink()  # killed between the training and the measurement
    list(run_trial(mine, torch.device("cpu")))
    assert read_measurement(folder)[1]["metrics"] == about["metrics"]
    (folder / "test.safetensors").write_bytes(b"cut off")
    with pytest.raises(UserError, match="cannot be read"):
        read_measurement(folder)


MAY_READ_THE_TEST_HALF = {
    "train/test_access.py",  # with an entry of the ledger
    "train/build.py",  # protocol conventional, which every table warns of
}
MAY_USE_AN_ENTRY = {"train/test_access.py", "train/measurement.py"}


def test_no_other_line_of_the_package_reads_the_test_half() -> None:
    reading, using = set(), set()
    for path in PACKAGE.rglob("*.py"):
        where = str(path.relative_to(PACKAGE))
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
                ("catalog.load", "HalfRequest")
            ):
                constants = [part.value for part in node.args if isinstance(part, ast.Constant)]
                reading |= {where} if "test" in constants else set()
            if isinstance(node, ast.Name) and node.id == "opened_images":
                using.add(where)
    assert reading == MAY_READ_THE_TEST_HALF
    assert using <= MAY_USE_AN_ENTRY
    assert all("opening" not in path.read_text() for path in (PACKAGE / "search").rglob("*.py"))


def test_conventional_training_is_monitored_by_the_queries_of_the_test_half_and_the_ledger_says_so(
    root: Path,
) -> None:
    values = {"objective.protocol": "conventional", "objective.metric": "precision_at_1", "max_steps": 3}
    experiment = load_experiment(str(root / "tiny.yaml")).with_values(values)
    places = locations(root)
    record_monitoring(experiment.with_values({"objective.protocol": "fair"}), places, "s")
    assert Ledger(places.store).entries() == []
    record_monitoring(experiment, places, "s")
    (monitored,) = Ledger(places.store).entries("s")
    assert monitored.kind == "monitored"
    assert monitored.fingerprint == catalog.load("inshop", "test", root).fingerprint
    assert "monitored and stopped on the test classes" in monitored.why

    mine = Order.of("s/conv", experiment, root / "trials" / "conv", places, opening=opened(root))
    last = list(run_trial(mine, torch.device("cpu")))[-1]
    metrics = read_measurement(Path(mine.folder))[1]["metrics"]
    assert last.best_score == pytest.approx(metrics["precision_at_1"], abs=1e-6)
    assert {f"recall_at_{k}" for k in (1, 10, 20, 30, 40, 50)} <= set(metrics)


def test_within_trains_on_both_halves_and_leaves_nothing_to_test_on(root: Path) -> None:
    experiment = load_experiment("glyphs", ["data.name=digits", "objective.protocol=within"])
    images = training_images(experiment, None)
    assert (images.num_classes, len(images)) == (10, 1797)
    parts = validation_split(experiment, images)
    assert len(set(images.labels_N[parts.train_N]) & set(images.labels_N[parts.validation_N])) == 10
    with pytest.raises(UserError, match="protocol within trains on the classes of both halves"):
        open_test(experiment, locations(root), kind="evaluate", study="x", why="y")
