"""Workers that crash, hang, or find the disk full: retried, counted, and told with their reason."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray.train.v2._internal.exceptions import WorkerHealthCheckFailedError
from support.broker_calls import FIRST, ask, order, report, run
from support.driving import SMALL

from dmltune.errors import UserError
from dmltune.train import broker as broker_module
from dmltune.train import order_state
from dmltune.train.broker import Broker
from dmltune.train.deaths import KILLED, OUT_OF_MEMORY, judge
from dmltune.train.order_state import MAX_UNCLEAR
from dmltune.train.orders import DISK_FULL
from dmltune.train.worker_pool import hung_after

PROGRAM = """
import contextlib, json, os, signal, subprocess, sys, tempfile, time
from pathlib import Path
import psutil
from dmltune.experiment import load_experiment
from dmltune.resources import Locations, Resources
from dmltune.train.orders import Order
from dmltune.train.worker_pool import worker_pool

experiment = load_experiment("glyphs", sys.argv[2:]).fixed().to_dict()
folder, full = Path(sys.argv[1]), Path(sys.argv[1]) / "full"
full.mkdir(parents=True)
mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(full)]).returncode == 0

def worker():
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "RayTrainWorker" in " ".join(process.cmdline()):
                return process.pid

found = {}
try:
    for patience, cases in (
        ("", (("segfault", signal.SIGSEGV, 2), ("kill", signal.SIGKILL, 2), ("once", signal.SIGKILL, 1),
              ("full", None, 0))),
        ("20", (("hang", signal.SIGSTOP, 1),)),  # more than a start takes on a busy machine
    ):
        os.environ["DMLTUNE_HUNG_AFTER"] = patience
        with worker_pool(Resources(concurrent=1), Locations()) as pool:
            for name, number, times in cases:
                if name == "full" and not mounted:
                    continue
                began, place = time.monotonic(), full if name == "full" else folder / name
                for _, report in pool.train([Order(f"faults/{name}", experiment, str(place))]):
                    if times and not report.finished:
                        os.kill(worker(), number)
                        times -= 1
                found[name] = (report.reason, report.failure, report.step, time.monotonic() - began)
finally:
    if mounted:
        subprocess.run(["umount", "-l", str(full)])
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Order → (reason, failure, last step, seconds)."""
    folder = tmp_path_factory.mktemp("faults")
    overrides = (*SMALL, "max_steps=16", "validate_every=4")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder / "trials"), *overrides],
        capture_output=True, text=True, cwd=folder, timeout=550, check=False,
        env=os.environ,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return document


def test_an_order_that_kills_its_workers_twice_fails_with_the_signal(ends: dict[str, Any]) -> None:
    assert ends["segfault"][:2] == ["failed", "its workers died 2 times: segmentation fault"]
    assert ends["kill"][:2] == ["failed", f"its workers died 2 times: {KILLED}"]


def test_one_death_of_its_workers_costs_an_order_nothing(ends: dict[str, Any]) -> None:
    assert ends["once"][:3] == ["max_steps", "", 16]


def test_a_worker_that_hangs_is_restarted_and_its_order_goes_on(ends: dict[str, Any]) -> None:
    assert ends["hang"][:3] == ["max_steps", "", 16]
    assert ends["hang"][3] > 20


def test_a_full_disk_is_no_failure_of_the_configuration(ends: dict[str, Any]) -> None:
    if "full" not in ends:
        pytest.skip("a small file system cannot be mounted here")
    assert ends["full"][1].startswith(DISK_FULL)
    assert "\n" not in ends["full"][1]


def test_whose_fault_the_end_of_workers_was() -> None:
    died = ray.exceptions.ActorDiedError
    lost_node, killed = died(), died()
    lost_node.error_msg = "The actor is dead because its node has died. Node Id: ab"
    killed.error_msg = (
        "Worker unexpectedly exits: (1) the process was killed by the OOM killer due to high memory"
    )
    peer = RuntimeError("Connection closed by peer")
    wrapped = WorkerHealthCheckFailedError("a worker does not answer", killed)
    memory = ray.exceptions.OutOfMemoryError("Task was killed due to the node running low on memory")
    assert judge([peer, lost_node])[1] == "node"
    assert judge([peer, wrapped]) == (KILLED, "worker")
    assert judge([memory]) == (OUT_OF_MEMORY, "worker")
    assert judge([peer]) == ("", "unclear")


def test_a_lost_node_counts_nothing_and_the_order_goes_to_a_group_that_is_free() -> None:
    async def scenario() -> None:
        broker = Broker()
        question = await ask(broker)
        assert await broker.next_order("a", 1) == order()
        for _ in range(6):
            await broker.lost("a", "its node was lost", "node")
            assert await broker.next_order("b", 1) == order()
            assert await broker.verdict("a", FIRST, 0, 0.01) == "leave"  # it is back, and too late
            await broker.lost("b", "its node was lost", "node")
            assert await broker.next_order("a", 1) == order()
        for _ in range(MAX_UNCLEAR - 1):
            await broker.lost("a", "", "unclear")
            assert await broker.next_order("a", 1) == order()
        await broker.lost("a", "", "unclear")
        assert (await question).failure == f"its workers died {MAX_UNCLEAR} times"
        assert await broker.next_order("a", 0.01) == "idle"

    run(scenario())


def test_the_patience_with_a_silent_group_follows_its_longest_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    for module in (order_state, broker_module):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(broker_module, "LOOK_S", 0.01)

    async def scenario() -> None:
        killed: list[str] = []
        broker = Broker(kill=killed.append)
        await broker.register("a")
        await broker.join("a", "rank 0")
        question = await ask(broker)
        assert await broker.next_order("a", 1) == order()
        clock[0] += 200  # a long pause, after which it reports: 4,000 s are nothing special from now on
        await broker.report("a", FIRST, report(0))
        await question
        question = await ask(broker, 0)
        clock[0] += 3900
        await broker.steps()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(question), 0.1)
        assert not killed
        clock[0] += 200
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(question), 0.1)
        assert killed == ["rank 0"]
        for _ in range(2):
            await broker.lost("a", KILLED, "worker")
            await broker.next_order("a", 1)
        assert "no step and no report for 4100 s" in (await question).failure

    run(scenario())


def test_the_patience_of_the_user_must_be_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    assert hung_after() is None
    monkeypatch.setenv("DMLTUNE_HUNG_AFTER", "90")
    assert hung_after() == 90.0
    for text in ("soon", "-1", "nan", "inf"):
        monkeypatch.setenv("DMLTUNE_HUNG_AFTER", text)
        with pytest.raises(UserError, match="DMLTUNE_HUNG_AFTER must be"):
            hung_after()
