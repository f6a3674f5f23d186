"""Test classes are opened by one door, which writes it down first; search and train have no key."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from data import tiny_layouts

import dmltune
from dmltune.data import catalog, splits
from dmltune.errors import UserError
from dmltune.experiment import load_experiment
from dmltune.ledger import FILE, Ledger
from dmltune.store import Store
from dmltune.train.inference import unseen_images
from dmltune.train.measurement import examined, read
from dmltune.train.orders import Order
from dmltune.train.test_access import open_test
from dmltune.train.trial import run_trial

PACKAGE = Path(dmltune.__file__).parent
SPACE = """
data: {name: inshop, size: 24}
backbone: resnet20
embedding: {dim: 8}
loss: contrastive
batch: {size: 4, samples_per_class: 2}
max_steps: 2
validate_every: 1
"""
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
    (tmp_path / "tiny.yaml").write_text(SPACE)
    tiny_layouts.write("inshop", tmp_path, 16, 4)
    monkeypatch.setenv("DMLTUNE_CACHE", str(tmp_path / "cache"))
    return tmp_path


def order(root: Path, protocol: str, opening: str = "") -> Order:
    experiment = load_experiment(str(root / "tiny.yaml"), [f"objective.protocol={protocol}"])
    folder = str(root / "trials" / f"{protocol}{opening}")
    return Order("one", experiment.to_dict(), folder, str(root), opening=opening)


def test_a_training_reads_no_test_image_whatever_the_protocol(root: Path) -> None:
    test = {str(path) for path in catalog.files("inshop", "test", root)[1]}
    train = {str(path) for path in catalog.files("inshop", "train", root)[1]}
    assert len(test) > 10
    done = subprocess.run(
        [sys.executable, "-c", READ_ALONE, str(root), *splits.PARTITIONS],
        capture_output=True, text=True, env=os.environ, check=True,
    )  # fmt: skip
    steps, opened = json.loads(done.stdout)
    assert steps == [2] * len(splits.PARTITIONS)
    assert train & set(opened)  # the hook sees what is read
    assert not (root / "store" / FILE).exists()
    assert not test & set(opened)


def test_a_training_does_not_miss_test_images_that_are_not_there(root: Path) -> None:
    for path in catalog.files("inshop", "test", root)[1]:
        path.unlink()
    reports = list(run_trial(order(root, "fair"), torch.device("cpu")))
    assert reports[-1].finished
    assert not examined(root / "trials" / "fair")
    with pytest.raises((UserError, FileNotFoundError)):
        list(run_trial(order(root, "fair", opening="0123"), torch.device("cpu")))


def test_who_names_no_opening_gets_no_test_image(root: Path) -> None:
    experiment = load_experiment(str(root / "tiny.yaml"))
    with pytest.raises(
        UserError, match="the test classes of inshop are closed to search and train"
    ) as caught:
        unseen_images(experiment, str(root), opening="")
    assert "\n" not in str(caught.value)


def test_the_door_writes_before_it_opens(root: Path) -> None:
    experiment, store = load_experiment(str(root / "tiny.yaml")), Store(root / "store")
    store.root.mkdir()
    (store.root / FILE).mkdir()  # the ledger cannot be written
    with pytest.raises(UserError, match="test ledger must be writable"):
        open_test(experiment, root, store, kind="check", study="s", why="w")
    (store.root / FILE).rmdir()

    opened = open_test(experiment, root, store, kind="check", study="s", why="w", configurations=["d"])
    assert Ledger(store).entries("s") == [opened.entry]
    assert (
        opened.entry.fingerprint
        == opened.images.fingerprint
        == catalog.load("inshop", "test", root).fingerprint
    )
    assert opened.entry.configurations == ("d",)


def test_where_there_are_no_data_nothing_is_opened_and_nothing_written(root: Path) -> None:
    experiment, store = load_experiment(str(root / "tiny.yaml")), Store(root / "store")
    store.root.mkdir()
    with pytest.raises(UserError):
        open_test(experiment, root / "nowhere", store, kind="check", study="s", why="w")
    assert Ledger(store).entries() == []


def test_an_opened_order_is_measured_after_its_training_and_only_once(root: Path) -> None:
    mine = order(root, "fair", opening="0123")
    folder = Path(mine.folder)
    reports = list(run_trial(mine, torch.device("cpu")))
    assert reports[-1].finished
    figures, about = read(folder, "average_precision", "matched", "emb")
    assert about["opening"] == "0123"
    test = catalog.load("inshop", "test", root)
    assert test.query_N is not None
    assert len(figures["average_precision"]) == int(test.query_N.sum())
    assert figures["emb"].shape == (len(test), 8)
    precision_Q = figures["average_precision"][figures["matched"]]
    assert about["metrics"]["map_at_r"] == pytest.approx(float(precision_Q.mean()))
    written = (folder / "test.safetensors").stat().st_mtime_ns

    assert list(run_trial(mine, torch.device("cpu"))) == [reports[-1]]  # its end comes again
    assert (folder / "test.safetensors").stat().st_mtime_ns == written
    (folder / "test.safetensors").unlink()  # killed between the training and the measurement
    list(run_trial(mine, torch.device("cpu")))
    assert read(folder)[1]["metrics"] == about["metrics"]
    shutil.rmtree(folder)


MAY_READ_THE_TEST_HALF = {
    "train/embedding.py",  # asks for an opening
    "train/build.py",  # protocol conventional, which every table warns of
}
MAY_NAME_AN_OPENING = {"check/opening.py", "train/examine.py", "train/embedding.py"}


def test_no_other_line_of_the_package_asks_for_the_test_half() -> None:
    asking, naming = set(), set()
    for path in PACKAGE.rglob("*.py"):
        where = str(path.relative_to(PACKAGE))
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("catalog.load"):
                words = [part.value for part in node.args if isinstance(part, ast.Constant)]
                asking |= {where} if "test" in words else set()
            if isinstance(node, ast.Name) and node.id == "unseen_images":
                naming.add(where)
    assert asking == MAY_READ_THE_TEST_HALF
    assert naming <= MAY_NAME_AN_OPENING
    searching = [path for path in (PACKAGE / "search").glob("*.py") if path.name != "series.py"]
    assert all("opening" not in path.read_text() for path in searching)
