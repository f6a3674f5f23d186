"""Two worker nodes of one CPU (conftest.py): ranks on both, a table of a paper; the loss of a GCS."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cluster_drivers import (
    SMALL,
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
from support.stores import new_store

from dmltune.store import Store

pytestmark = pytest.mark.skipif(
    not can_hide_folders(), reason="needs `unshare --mount`, which this machine does not allow"
)
TABLE = """\
source: a paper, Table 9
protocol: fair
overrides: [data.classes=24, data.size=16, batch.size=16, embedding.dim=8, "validate_every=2", max_steps=4]
data:
  G: {name: glyphs, space: glyphs}
columns:
  1 model: {score: single, metric: map_at_r}
rows:
  C2: {theirs: {G: [42.66]}}
"""
GIVEN_UP = "RAY_gcs_rpc_server_reconnect_timeout_s"


def test_two_ranks_of_a_trial_are_on_two_nodes_and_its_model_comes_to_the_driver(
    dmltune: Start, folder: Path
) -> None:
    """Each node has one CPU, and a rank takes one."""
    store = new_store(folder / "ranks").root
    train = ["train", "glyphs-ccp", "--name", "t", "--workers", "2", "--store", store]
    out, _ = finished(dmltune(*train, *SMALL, "max_steps=4", "validate_every=2"))
    assert "on the validation classes" in out
    require_models(Store.at(store), 1)
    assert trial_folders() == []


def test_a_table_of_a_paper_is_trained_on_a_cluster(dmltune: Start, folder: Path) -> None:
    store, table = new_store(folder / "table").root, folder / "nine.yaml"
    table.write_text(TABLE, encoding="utf-8")
    run = ["reproduce", table, "--run", "--repeats", "1", "--folds", "2", "--store", store]
    out, err = finished(dmltune(*run))
    assert "1 of 1 printed figures have ours beside them" in out
    assert f"2 of 3 nodes do not share {store}/searches" in out + err
    require_models(Store.at(store), 2)
    assert trial_folders() == []


def test_a_search_that_lost_the_gcs_ends_and_continues_on_another_cluster(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(GIVEN_UP, "5")
    steps, every = 200, 20
    store, cache = new_store(tmp_path / "store").root, str(tmp_path / "cache")
    search = ["search", "glyphs-ccp", "--name", "k", "--trials", "2", "--store", store]
    search += [*SMALL, f"max_steps={steps}", f"validate_every={every}"]
    with running_cluster(1) as lost, drivers(lost, {"DMLTUNE_CACHE": cache}) as start:
        driver = start(*search)
        wait_for(lambda: mirrored_step(store, "0000") >= every, driver)
        lost.kill_gcs()
        _, err = driver.communicate(timeout=100)
        assert driver.returncode != 0
        assert "does not answer" in err
    before = mirrored_step(store, "0000")
    assert max(logged_steps(Store.at(store), "0000")) - before <= every
    with drivers(cluster, {"DMLTUNE_CACHE": cache}) as start:
        seen: list[int] = []

        def goes_on() -> bool:
            seen.append(mirrored_step(store, "0000"))
            return max(seen) > before

        again = start(*search)
        wait_for(goes_on, again)
        assert min(seen) >= before
        finished(again)
    require_models(Store.at(store), 2)
    for trial in ("0000", "0001"):
        assert logged_steps(Store.at(store), trial) == list(range(0, steps + 1, every))
