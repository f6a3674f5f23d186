"""Workers on several nodes: a training across two, a node that is lost, one that arrives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from support.driving import SMALL

PROGRAM = """
import json, sys, threading, time
from pathlib import Path
from ray.cluster_utils import Cluster
from dmltune.experiment import load_experiment
from dmltune.resources import Locations, Resources
from dmltune.train.orders import Order
from dmltune.train.worker_pool import worker_pool

folder = Path(sys.argv[1])
experiment = load_experiment("glyphs", sys.argv[2:]).fixed().to_dict()
small = {"object_store_memory": 80 * 2**20, "node_ip_address": "127.0.0.1"}
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False, **small})
node = cluster.add_node(num_cpus=1, **small)
found, said, places = {}, [], Locations()
try:
    with worker_pool(Resources(workers=2, address=cluster.address), places, said.append) as pool:
        steps = []
        for _, report in pool.train([Order("nodes/two", experiment, str(folder / "two"))]):
            steps.append(report.step)
            if report.step == 4:
                cluster.remove_node(node, allow_graceful=False)
                node = cluster.add_node(num_cpus=1, **small)
        found["two"] = (report.reason, report.failure, steps)
    with worker_pool(Resources(address=cluster.address), places, said.append) as pool:
        before = pool.concurrent
        cluster.add_node(num_cpus=1, **small)
        ends, most = {}, 0
        orders = [Order(f"nodes/{n}", experiment, str(folder / str(n))) for n in range(6)]
        for name, report in pool.train(orders):
            most = max(most, pool.concurrent)
            ends[name] = (report.reason, report.failure)
        found["grown"] = (before, most, len(pool.groups.groups), list(ends.values()))
finally:
    cluster.shutdown()
print(json.dumps({**found, "said": said}))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("nodes")
    overrides = (*SMALL, "max_steps=16", "validate_every=4")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder / "trials"), *overrides],
        capture_output=True, text=True, cwd=folder, timeout=550, check=False, env=os.environ,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return document


def test_a_training_across_two_nodes_survives_the_loss_of_one(found: dict[str, Any]) -> None:
    reason, failure, steps = found["two"]
    assert (reason, failure) == ("max_steps", "")
    assert steps == [0, 4, 8, 12, 16]


def test_a_node_that_arrives_gets_a_worker_group(found: dict[str, Any]) -> None:
    before, most, groups, ends = found["grown"]
    assert before < most
    assert groups > before
    assert ends == [["max_steps", ""]] * 6
    assert any("trials at a time now" in line for line in found["said"])
