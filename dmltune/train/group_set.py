"""The worker groups of a pool: as many as the cluster has room for, and as many as there is work for."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import ray

from dmltune.errors import UserError
from dmltune.train.worker_group import WorkerGroup
from dmltune.worker_resources import described, room

LOOK_S = 2.0
IDLE_S = 20.0  # a group without an order for so long is released, while another one is left
HOMELESS_S = 30.0  # a group that waits so long for room that a lost node has taken is given up
NO_ROOM_S = 600.0  # without any group that could start


class GroupSet:
    """Starts and ends groups. On a cluster a thread follows its size, and what the broker has to do.

    `most` is the number of groups that the user wants; None: as many as there is room for.
    """

    def __init__(
        self,
        make: Callable[[int], WorkerGroup],
        broker: Any,
        first: int,
        most: int | None,
        workers: int,
        request: Mapping[str, float],
        log: Callable[[str], None],
    ) -> None:
        self._make, self._broker, self._log = make, broker, log
        self._most, self._workers, self._request = most, workers, request
        self._over = threading.Event()
        self._since: dict[str, float] = {}  # a group's name → since when it is idle or without room
        self._no_room: float | None = None  # since when no group serves
        self._failure: UserError | None = None
        self._made = 0
        self.groups: list[WorkerGroup] = []
        self.concurrent = first
        for _ in range(first):
            self._start()

    def follow(self) -> None:
        """Follow the cluster from now on."""
        threading.Thread(target=self._follow, name="groups", daemon=True).start()

    def failure(self) -> BaseException | None:
        """Return why no group is left to train anything; None while there is one."""
        if self._failure is not None:
            return self._failure
        alive = any(group.alive and group.error is None for group in self.groups)
        return None if alive else next((group.error for group in self.groups if group.error), None)

    def end(self) -> None:
        self._over.set()
        for group in self.groups:
            group.end()

    def join(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        for group in self.groups:
            if not group.join(max(0.1, deadline - time.monotonic())):
                group.abandon()

    def _start(self) -> None:
        group = self._make(self._made)
        self._made += 1
        self.groups.append(group)
        group.start()

    def _follow(self) -> None:
        while not self._over.wait(LOOK_S):
            with contextlib.suppress(ray.exceptions.RayError):  # the broker or Ray's head starts again
                load: dict[str, int] = ray.get(self._broker.load.remote(), timeout=10)
                groups = room(_nodes(), self._request) // self._workers
                if not self._over.is_set():
                    self._look(load.pop(""), load, groups)

    def _look(self, waiting: int, registered: dict[str, int], fitting: int) -> None:
        """Decide by the orders that wait, the groups that serve (1: busy), and how many groups fit."""
        alive = [group for group in self.groups if group.alive and not group.ending]
        pending = [group for group in alive if group.name not in registered]
        idle = [group for group in alive if registered.get(group.name) == 0]
        if self._most is None and fitting and fitting != self.concurrent:
            self._log(f"room for {fitting} trials at a time now, {self.concurrent} before")
            self.concurrent = fitting
        self._since = {
            name: at for name, at in self._since.items() if name in {g.name for g in pending + idle}
        }
        wanted = min(self.concurrent, max(fitting, 1))
        if waiting and not pending and not idle and len(alive) < wanted:
            self._start()
        for group in pending[max(0, wanted - (len(alive) - len(pending))) :]:
            if len(alive) > 1 and self._for(group) > HOMELESS_S:
                group.abandon()
                alive.remove(group)
        for group in idle if not waiting else []:
            if len(alive) > 1 and self._for(group) > IDLE_S:
                group.end()
                self._broker.release.remote(group.name)
                alive.remove(group)
        self._judge_room(bool(registered), waiting)

    def _for(self, group: WorkerGroup) -> float:
        return time.monotonic() - self._since.setdefault(group.name, time.monotonic())

    def _judge_room(self, served: bool, waiting: int) -> None:
        """End the work when no group could start for a long time; say before what it waits for."""
        if served or not waiting:
            self._no_room = None
            return
        nodes = _nodes()
        lacks = (
            f"a trial needs {self._workers} workers of {described(self._request)}, and the cluster's "
            f"{len(nodes)} nodes have room for {room(nodes, self._request)}"
        )
        if self._no_room is None:
            self._no_room = time.monotonic()
        elif time.monotonic() - self._no_room > NO_ROOM_S:
            self._failure = UserError(
                f"no workers could start for {NO_ROOM_S:.0f} s: {lacks}. "
                "Add nodes; the same command continues."
            )


def _nodes() -> list[dict[str, float]]:
    """Return what the living nodes have."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
