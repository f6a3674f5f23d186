"""A head and a worker node that do not see each other's folders: searches, checks and evaluations on it.

The head has no CPU, as in KubeRay, and the driver runs beside it. The worker node is in a mount namespace of
its own, where an empty folder hides the store.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from data.tiny_layouts import picture
from support.cluster_drivers import (
    EVERY,
    LONG,
    STEPS,
    Start,
    drivers,
    finished,
    logged_steps,
    mirrored_step,
    require_models,
    trial_folders,
    wait_for,
)
from support.clusters import Cluster, can_hide_folders, running_cluster
from support.other_node import on_the_node
from support.s3_server import s3_server

from dmltune.core import checkpoint
from dmltune.errors import UserError
from dmltune.storage import addresses
from dmltune.storage.addresses import AddressTransport
from dmltune.store import Store

pytestmark = pytest.mark.skipif(
    not can_hide_folders(), reason="needs `unshare --mount`, which this machine does not allow"
)
PHOTOS = ["loss=triplet", "batch={size: 8, samples_per_class: 2}", "references.patience=2"]
PHOTOS += ["data.size=16", "max_steps=2", "validate_every=1", "scheduler=none"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the worker node does not see: stores, and the driver's copies of addresses."""
    return tmp_path_factory.mktemp("drivers-disk")


@pytest.fixture(scope="module")
def cache_of_the_node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache-of-the-node")


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    with s3_server("bucket") as environment:
        yield environment


@pytest.fixture(scope="module")
def cluster(folder: Path, cache_of_the_node: Path, s3: dict[str, str]) -> Iterator[Cluster]:
    with running_cluster() as running:
        running.add_node("apart", 1, hidden=[folder], DMLTUNE_CACHE=str(cache_of_the_node), **s3)
        yield running


@pytest.fixture
def dmltune(cluster: Cluster, folder: Path, s3: dict[str, str]) -> Iterator[Start]:
    with drivers(cluster, s3 | {"DMLTUNE_CACHE": str(folder / "cache")}) as start:
        yield start


def test_a_shared_folder_is_used_without_any_copy(cluster: Cluster, tmp_path: Path) -> None:
    found = on_the_node(cluster, tmp_path)
    assert found["said"] == [
        f"all 2 nodes share {tmp_path}/searches: checkpoints and models are written there directly"
    ]
    assert found["direct"]
    assert found["folder"] == str(tmp_path / "searches/s/trials/0000")
    assert found["same"]


def test_large_files_arrive_whole_and_none_outside_of_the_store(cluster: Cluster, folder: Path) -> None:
    store = folder / "large"
    (store / "searches").mkdir(parents=True)
    (store / "searches" / "link").symlink_to(folder)
    found = on_the_node(cluster, store)
    assert not found["direct"]
    assert not Path(found["folder"]).exists()
    assert found["mode"] == "0o700"
    assert found["same"]  # also after the receiver was restarted
    assert all("inside it" in text for text in found["escaped"])
    files = [path.name for path in (store / "searches").rglob("*") if path.is_file()]
    assert files == ["checkpoint.safetensors"]
    assert not (folder / "x").exists()


def test_search_resume_evaluate_and_check_work_where_nothing_is_shared_and_only_the_driver_has_the_photos(
    dmltune: Start, folder: Path, cache_of_the_node: Path
) -> None:
    store = folder / "apart"
    for number in range(12):
        for index in range(3):
            half = "train" if number < 8 else "test"
            picture(folder / "photos" / half / f"kind {number}" / f"{index}.png", number, index)
    search = ["search", "--data", folder / "photos", "--name", "s", "--trials", "2", "--store", store]
    out, err = finished(dmltune(*search, *PHOTOS))
    assert f"1 of 2 nodes do not share {store}/searches" in out + err
    require_models(Store.at(store), 2)
    assert not any((store / "searches" / "s" / "trials").iterdir())
    out, _ = finished(dmltune("resume", "s", "--trials", "3", "--store", store, "-f", "json"))
    assert [row["state"] for row in json.loads(out)["rows"]] == ["complete"] * 3
    require_models(Store.at(store), 3)
    out, _ = finished(dmltune("evaluate", "s", "-f", "json", "--store", store, on_cluster=False))
    assert 0 < json.loads(out)["map_at_r"] <= 1
    check = ["check", "s", "--folds", "1", "--repeats", "1", "--store", store, "-f", "json"]
    out, _ = finished(dmltune(*check))
    models = [model for each in json.loads(out)["configurations"] for model in each["models"]]
    assert models
    assert all(0 < model["test"]["map_at_r"] <= 1 for model in models)
    assert list(cache_of_the_node.glob("own-train-*")), "the worker's node has packed what it got"
    assert not list((store / "searches").glob(".probe-*"))
    assert trial_folders() == []


def test_the_same_with_nothing_shared_but_an_address(
    dmltune: Start,
    folder: Path,
    s3: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The driver is killed in the middle and its disk is lost; another one continues from the address."""
    search = ["search", "glyphs-ccp", "--name", "k", "--trials", "2", "--store", "s3://bucket/dml", *LONG]
    driver = dmltune(*search)
    for name, value in (s3 | {"DMLTUNE_CACHE": str(folder / "another-machine")}).items():
        monkeypatch.setenv(name, value)
    addresses._file_system.cache_clear()
    files = AddressTransport("s3://bucket/dml")

    def step() -> int:
        """Return the step of the checkpoint that is there, −1 without one; a busy server is asked again."""
        for _ in range(20):
            with tempfile.TemporaryDirectory() as scratch, contextlib.suppress(UserError, OSError):
                name = "searches/k/trials/0000/last/checkpoint.safetensors"
                if not files.fetch(name, Path(scratch) / "checkpoint.safetensors"):
                    return -1
                return int(checkpoint.load(Path(scratch))[1]["report"]["step"])
            time.sleep(0.5)
        raise AssertionError("the checkpoint cannot be read")

    wait_for(lambda: step() >= EVERY, driver)
    driver.kill()
    driver.communicate()
    shutil.rmtree(folder / "cache")
    before = step()
    again = dmltune(*search)
    seen = []
    wait_for(lambda: seen.append(step()) or (max(seen) > before), again)  # type: ignore[func-returns-value]
    assert min(seen) >= before  # it did not begin anew
    out, err = finished(again)
    assert "checkpoints and models go to s3://bucket/dml/searches" in out + err
    assert "secret-of-the-tests" not in out + err
    store = Store.at("s3://bucket/dml")
    require_models(store, 2)
    for number in ("0000", "0001"):
        assert logged_steps(store, number) == list(range(0, STEPS + 1, EVERY))
    assert not [name for name in files.names("searches") if "/trials/" in name]
    assert trial_folders() == []


def test_a_node_that_is_killed_or_preempted_costs_at_most_one_validation_interval(
    dmltune: Start, cluster: Cluster, folder: Path
) -> None:
    store = folder / "killed"
    search = dmltune("search", "glyphs-ccp", "--name", "k", "--trials", "2", "--store", store, *LONG)

    def moves_on(lose: Callable[[], None], trial: str, successor: str) -> None:
        """Lose the node that trains; the trial goes on elsewhere, from its mirrored checkpoint."""
        wait_for(lambda: mirrored_step(store, trial) >= EVERY, search)
        lose()
        mirrored = mirrored_step(store, trial)
        reported = max(logged_steps(Store.at(store), trial))
        assert reported - mirrored <= EVERY
        cluster.add_node(successor, 1, hidden=[folder])
        steps = []

        def goes_on() -> bool:
            steps.append(mirrored_step(store, trial))
            return max(steps) > mirrored

        wait_for(goes_on, search)
        assert min(steps) >= mirrored  # no step before that checkpoint was trained again

    moves_on(lambda: cluster.kill_node("apart"), "0000", "next")
    moves_on(lambda: preempt(cluster, "next"), "0001", "last")
    finished(search)
    require_models(Store.at(store), 2)
    for trial in ("0000", "0001"):
        assert logged_steps(Store.at(store), trial) == list(range(0, STEPS + 1, EVERY))


def preempt(cluster: Cluster, name: str) -> None:
    """Give notice of two seconds, after which Ray ends the node."""
    cluster.preempt_node(name, 2.0)
    deadline = time.monotonic() + 60
    while cluster.ids[name] in cluster.alive():
        assert time.monotonic() < deadline
        time.sleep(0.2)
