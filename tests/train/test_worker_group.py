"""A worker group whose session has ended starts no other Ray."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import ray

from dmltune.train import worker_group
from dmltune.train.worker_group import WorkerGroup


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
