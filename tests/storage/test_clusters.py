"""A head and a worker node that do not see each other's folders: searches, checks and evaluations on it.

The head has no CPU, as in KubeRay, and the driver runs beside it. The worker node is in a mount namespace of
its own, where an empty folder hides the store.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.clusters import ENVIRONMENT, Cluster, can_hide_folders, running_cluster
from support.s3_server import s3_server

from dmltune.store import Store
from dmltune.tracking import Tracker

pytestmark = pytest.mark.skipif(
    not can_hide_folders(), reason="needs `unshare --mount`, which this machine does not allow"
)
QUICK = ["data.classes=40", "data.size=16", "batch.size=16", "max_steps=4", "validate_every=2"]
LONG = [*QUICK[:3], "max_steps=600", "validate_every=50"]
DMLTUNE = [sys.executable, "-m", "dmltune"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the worker node does not see: stores, and the driver's copies of addresses."""
    return tmp_path_factory.mktemp("drivers-disk")


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    with s3_server("bucket") as environment:
        yield environment


@pytest.fixture(scope="module")
def cluster(folder: Path, s3: dict[str, str]) -> Iterator[Cluster]:
    with running_cluster() as running:
        running.add_node("apart", 1, hidden=[folder], **s3)
        yield running


@pytest.fixture
def dmltune(cluster: Cluster, folder: Path, s3: dict[str, str]) -> Callable[..., subprocess.Popen[str]]:
    environment = os.environ | ENVIRONMENT | s3 | {"DMLTUNE_CACHE": str(folder / "cache")}

    def start(*words: str | Path, on_cluster: bool = True) -> subprocess.Popen[str]:
        address = ["--address", cluster.address] if on_cluster else []
        return subprocess.Popen(
            [*DMLTUNE, *map(str, words), *address],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )

    return start


def finished(process: subprocess.Popen[str], code: int = 0) -> tuple[str, str]:
    out, err = process.communicate(timeout=500)
    assert process.returncode == code, err + out
    return out, err


def require_models(store: Store, trials: int) -> None:
    tracker = Tracker(store)
    stored = [run for run in tracker.runs("") if run.data.tags.get("dmltune.model") == "stored"]
    assert len(stored) >= trials
    for run in stored:
        place = tracker.stored_at(run)
        assert place is not None
        assert (place / "model.safetensors").is_file()


def trial_folders() -> list[Path]:
    """Return the private folders of workers on this machine's disk."""
    return list(Path("/tmp").glob("dmltune-trial-*"))


def test_search_check_and_evaluate_work_where_nothing_is_shared(
    dmltune: Callable[..., subprocess.Popen[str]], folder: Path
) -> None:
    store = folder / "apart"
    out, err = finished(
        dmltune("search", "glyphs-ccp", "--name", "s", "--trials", "3", "--store", store, *QUICK)
    )
    assert f"1 of 2 nodes do not share {store}/searches" in out + err
    require_models(Store.at(store), 2)
    assert not any((store / "searches" / "s" / "trials").iterdir())
    out, _ = finished(dmltune("evaluate", "s", "-f", "json", "--store", store, on_cluster=False))
    assert 0 < json.loads(out)["map_at_r"] <= 1
    check = ["check", "s", "--folds", "2", "--repeats", "1", "--store", store, "-f", "json"]
    out, _ = finished(dmltune(*check))
    models = [model for each in json.loads(out)["configurations"] for model in each["models"]]
    assert models
    assert all(0 < model["test"]["map_at_r"] <= 1 for model in models)
    assert not list((store / "searches").glob(".probe-*"))
    assert trial_folders() == []
