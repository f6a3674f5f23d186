"""How many worker groups there are: as many as a cluster has room for, and as there is work for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dmltune.train import group_set
from dmltune.train.group_set import HOMELESS_S, IDLE_S, GroupSet


class Group:
    """A worker group that runs nothing; the decisions about it are real."""

    def __init__(self, number: int) -> None:
        self.name, self.alive, self.ending, self.error = f"group-{number}", True, False, None

    def start(self) -> None:
        """Nothing."""

    def end(self) -> None:
        self.ending = True

    def abandon(self) -> None:
        self.ending, self.alive = True, False


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(group_set, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def groups_of(first: int, most: int | None = None) -> tuple[GroupSet, list[str]]:
    released: list[str] = []
    broker = SimpleNamespace(release=SimpleNamespace(remote=released.append))
    make: Any = Group
    return GroupSet(make, broker, first, most, 1, {"CPU": 1.0}, lambda text: None), released


def names(groups: GroupSet) -> list[str]:
    return [group.name for group in groups.groups if group.alive and not group.ending]


def test_a_cluster_that_grows_gets_a_group_where_trials_wait(clock: list[float]) -> None:
    groups, _ = groups_of(1)
    groups._look(1, {"group-0": 1}, fitting=1)
    assert names(groups) == ["group-0"]
    groups._look(0, {"group-0": 1}, fitting=3)
    assert groups.concurrent == 3  # the search asks for more, and then orders wait
    assert names(groups) == ["group-0"]
    groups._look(2, {"group-0": 1}, fitting=3)
    groups._look(2, {"group-0": 1}, fitting=3)
    assert names(groups) == ["group-0", "group-1"]  # one starts at a time
    groups._look(1, {"group-0": 1, "group-1": 1}, fitting=3)
    assert names(groups) == ["group-0", "group-1", "group-2"]
    groups._look(4, {"group-0": 1, "group-1": 1, "group-2": 1}, fitting=3)
    assert len(names(groups)) == 3


def test_the_user_s_number_of_trials_is_the_most(clock: list[float]) -> None:
    groups, _ = groups_of(2, most=2)
    groups._look(5, {"group-0": 1, "group-1": 1}, fitting=9)
    assert (groups.concurrent, len(names(groups))) == (2, 2)


def test_a_group_that_nobody_needs_is_released_and_one_is_left(clock: list[float]) -> None:
    groups, released = groups_of(3)
    for _ in range(3):
        groups._look(0, {"group-0": 1, "group-1": 0, "group-2": 0}, fitting=3)
        clock[0] += 0.4 * IDLE_S
    assert not released
    groups._look(
        0, {"group-0": 1, "group-1": 1, "group-2": 0}, fitting=3
    )  # group-1 got an order: its time is over
    assert released == ["group-2"]
    clock[0] += 2 * IDLE_S
    groups._look(0, {"group-0": 0, "group-1": 0}, fitting=3)
    clock[0] += 2 * IDLE_S
    groups._look(0, {"group-0": 0, "group-1": 0}, fitting=3)
    assert len(names(groups)) == 1


def test_a_group_of_a_lost_node_does_not_wait_for_ever_while_others_work(clock: list[float]) -> None:
    groups, _ = groups_of(2)
    groups._look(0, {"group-0": 1}, fitting=1)  # group-1 died with its node
    clock[0] += HOMELESS_S + 1
    groups._look(0, {"group-0": 1}, fitting=1)
    assert names(groups) == ["group-0"]
    groups._look(1, {"group-0": 1}, fitting=2)  # a node is back
    assert names(groups) == ["group-0", "group-2"]


def test_the_only_group_waits_for_a_node_and_then_says_what_is_missing(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    node = {"Alive": True, "Resources": {"memory": 1e9}}
    fake = SimpleNamespace(nodes=lambda: [node, {**node, "Alive": False}])
    monkeypatch.setattr(group_set, "ray", fake)
    groups, _ = groups_of(1)
    for _ in range(3):
        assert groups.failure() is None
        groups._look(1, {}, fitting=0)
        clock[0] += group_set.NO_ROOM_S / 2 + 1
    failure = str(groups.failure())
    assert "a trial needs 1 workers of 1 CPU, and the cluster's 1 nodes have room for 0" in failure
