"""Searches, checks and evaluations on nodes that do not see each other's folders (conftest.py)."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from data.tiny_layouts import picture
from support.cluster_drivers import (
    EVERY,
    LONG,
    SMALL,
    STEPS,
    Start,
    finished,
    logged_steps,
    mirrored_step,
    require_models,
    trial_folders,
    wait_for,
)
from support.clusters import Cluster, can_hide_folders
from support.other_node import on_the_node
from support.stores import new_store

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


def test_a_shared_folder_is_used_without_any_copy(cluster: Cluster, tmp_path: Path) -> None:
    found = on_the_node(cluster, tmp_path)
    assert found["said"] == [
        f"all 3 nodes share {tmp_path}/searches: checkpoints and models are written there directly"
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
    dmltune: Start, folder: Path, caches: Path
) -> None:
    store = new_store(folder / "apart").root
    for number in range(12):
        for index in range(3):
            half = "train" if number < 8 else "test"
            picture(folder / "photos" / half / f"kind {number}" / f"{index}.png", number, index)
    search = ["search", "--data", folder / "photos", "--name", "s", "--trials", "2", "--store", store]
    out, err = finished(dmltune(*search, *PHOTOS))
    assert f"2 of 3 nodes do not share {store}/searches" in out + err
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
    assert list(caches.glob("*/own-train-*")), "a worker's node has packed what it got"
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
    """The node that trains is lost. The trial goes on where there is room, from its mirrored checkpoint."""
    store = new_store(folder / "killed").root
    words = ("search", "glyphs-ccp", "--name", "k", "--trials", "2", "--concurrent", "1", "--store", store)
    steps = 1000  # so that a trial does not end within the notice
    search = dmltune(*words, *SMALL, f"max_steps={steps}", f"validate_every={EVERY}")

    def moves_on(lose: Callable[[str], None], trial: str) -> None:
        wait_for(lambda: mirrored_step(store, trial) >= EVERY, search)
        (name,) = cluster.nodes_with("RayTrainWorker")
        lose(name)
        mirrored = mirrored_step(store, trial)
        reported = max(logged_steps(Store.at(store), trial))
        assert reported - mirrored <= EVERY
        seen = []

        def goes_on() -> bool:
            seen.append(mirrored_step(store, trial))
            return max(seen) > mirrored

        wait_for(goes_on, search)
        assert min(seen) >= mirrored  # no step before that checkpoint was trained again
        cluster.add_node(f"after {name}", 1, hidden=[folder])

    moves_on(lambda name: preempt(cluster, name), "0000")
    moves_on(cluster.kill_node, "0001")
    finished(search)
    require_models(Store.at(store), 2)
    for trial in ("0000", "0001"):
        assert logged_steps(Store.at(store), trial) == list(range(0, steps + 1, EVERY))


def preempt(cluster: Cluster, name: str) -> None:
    """Give notice of two seconds, after which Ray ends the node."""
    cluster.preempt_node(name, 2.0)
    deadline = time.monotonic() + 60
    while cluster.ids[name] in cluster.alive():
        assert time.monotonic() < deadline
        time.sleep(0.2)
