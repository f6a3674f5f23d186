"""A worker group whose session has ended starts no other Ray."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray.train import ScalingConfig
from ray.train.v2._internal.execution.scaling_policy import NoopDecision

from dmltune.train import worker_group
from dmltune.train.worker_group import GroupTrainer, WorkerGroup


class Broker:
    """Notes what it is told; any call of a real one would start a Ray where none is."""

    def __init__(self) -> None:
        self.told: list[tuple[str, ...]] = []

    def __getattr__(self, method: str) -> Any:
        return SimpleNamespace(remote=lambda *arguments: self.told.append((method, *arguments)))


def group_that_ends_with(
    error: Exception, monkeypatch: pytest.MonkeyPatch, initialised: bool
) -> tuple[WorkerGroup, Broker]:
    broker = Broker()
    group = WorkerGroup("group-0", broker, 1, False, {"CPU": 1.0}, "/nowhere")

    def fit() -> None:
        raise error

    monkeypatch.setattr(worker_group.ray, "is_initialized", lambda: initialised)
    monkeypatch.setattr(group, "_trainer", lambda name: SimpleNamespace(fit=fit, controller=None))
    group.start()
    assert group.join(20)
    return group, broker


@pytest.mark.parametrize("error", [ray.exceptions.ActorDiedError(), RuntimeError("no room")])
def test_a_group_whose_session_has_ended_calls_nobody(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, broker = group_that_ends_with(error, monkeypatch, initialised=False)
    assert broker.told == []
    assert group.error is None


def test_a_group_that_was_told_to_end_calls_nobody_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(name: str) -> None:
        group.end()
        raise ray.exceptions.ActorDiedError

    broker = Broker()
    group = WorkerGroup("group-0", broker, 1, False, {"CPU": 1.0}, "/nowhere")
    monkeypatch.setattr(worker_group.ray, "is_initialized", lambda: True)
    monkeypatch.setattr(group, "_trainer", end)
    group.start()
    assert group.join(20)
    assert broker.told == []


def test_a_group_gives_up_after_three_lost_controllers(monkeypatch: pytest.MonkeyPatch) -> None:
    error = ray.exceptions.ActorDiedError()
    group, broker = group_that_ends_with(error, monkeypatch, initialised=True)
    lost = ("lost", "group-0", "its controller was lost", "node")
    assert broker.told == [lost, lost, lost, ("resign", "group-0")]
    assert group.error is error


@pytest.mark.parametrize("grows", [True, False])
def test_only_a_cluster_that_grows_has_a_process_that_hears_which_workers_are_wanted(
    grows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {}
    here = SimpleNamespace(get_node_id=lambda: "0" * 56)

    def remote(**how: Any) -> Any:
        made = SimpleNamespace(run=SimpleNamespace(remote=lambda: 0), get_result=SimpleNamespace(remote=int))
        return lambda controller: SimpleNamespace(remote=lambda **own: given.update(own) or made)

    monkeypatch.setattr(worker_group.ray, "get_runtime_context", lambda: here)
    monkeypatch.setattr(worker_group.ray, "remote", remote)
    monkeypatch.setattr(worker_group.ray, "get", lambda answer: answer)
    trainer = object.__new__(GroupTrainer)
    trainer.grows, trainer.scaling_config = grows, ScalingConfig(num_workers=3)
    trainer._initialize_and_run_controller(scaling_policy="Ray's")
    if grows:
        assert given["scaling_policy"] == "Ray's"
        return
    policy = given["scaling_policy"]
    policy.after_controller_start(None)
    assert policy.make_decision_for_non_running_worker_group().num_workers == 3
    assert isinstance(policy.make_decision_for_running_worker_group(None, None), NoopDecision)
    policy.before_controller_abort()
    assert policy._coordinator_client is None


def test_the_controller_s_part_loads_no_torch() -> None:
    program = "import sys, dmltune.train.fixed_size; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "False\n", done.stderr
