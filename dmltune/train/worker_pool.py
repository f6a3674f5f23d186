"""A pool of warm worker groups with their broker: what search, check, reproduce and train run on."""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ray

from dmltune.core import checkpoint
from dmltune.errors import UserError, readable
from dmltune.resources import Locations, Resources
from dmltune.storage.route import Route, find_route
from dmltune.store import Store
from dmltune.train.broker import Broker, kill_actor
from dmltune.train.driver_files import start_driver_files
from dmltune.train.group_set import GroupSet
from dmltune.train.head_watch import head_watch
from dmltune.train.orders import Order, TrialReport
from dmltune.train.ray_session import RaySession, ResourcePlan, plan_resources, ray_session
from dmltune.train.stop_signals import stop_signals
from dmltune.train.worker_group import WorkerGroup

BROKER = "broker"
HUNG_AFTER = "DMLTUNE_HUNG_AFTER"
END_S = 20.0  # how long a group may take to end by itself
POLL_S = 1.0  # how often the stop signal and the health of the groups are looked at, at least


@dataclass(frozen=True)
class WorkerPool:
    """`stopped` is set by the first Ctrl-C or SIGTERM: leave what is under way in order."""

    session: RaySession
    plan: ResourcePlan
    broker: Any
    groups: GroupSet
    stopped: threading.Event
    store: Store
    route: Route | None = None

    @property
    def concurrent(self) -> int:
        """How many trials the pool has room for now: a cluster grows and shrinks."""
        return self.groups.concurrent

    def failure(self) -> BaseException | None:
        """Return why nothing can be trained or stored any more; None while it can."""
        return self.store.failure or self.groups.failure()

    def close(self, order_id: str) -> None:
        self.broker.close.remote(order_id)

    def routed(self, order: Order) -> Order:
        """Return the order with the way of its files to the store; here they must be at hand."""
        if self.route is None:
            self.store.bring(Path(order.folder))
            return order
        return replace(order, route=self.route.to_dict())

    def train(self, orders: Iterable[Order]) -> Iterator[tuple[str, TrialReport]]:
        """Yield (order id, report) for every validation of every order, as they come.

        The last report of an order is finished or failed. A group goes on when its report was read, so a kill
        of this process loses no report. Ends early, with the orders under way closed, once
        `stopped` is set. A folder with a checkpoint is continued; a finished one is only read.
        """
        call = secrets.token_hex(4)  # the broker may still hold an order of an earlier call
        left = deque(orders)
        pending: dict[Any, Order] = {}  # an answer to come → its order
        open_orders: set[str] = set()

        def ask(order: Order, after: int) -> None:
            open_orders.add(order.id)
            pending[self.broker.next_report.remote(order, after)] = order

        def begin() -> None:
            while left and len(pending) < self.concurrent:
                order = left.popleft()
                own = replace(order, id=f"{order.id}#{call}", threads=self.plan.threads)
                ask(self.routed(own), -1)

        try:
            begin()
            while pending and not self.stopped.is_set():
                ready, _ = ray.wait(list(pending), timeout=POLL_S)
                if not ready and (failure := self.failure()) is not None:
                    raise failure
                for answer in ready:
                    order = pending.pop(answer)
                    report: TrialReport = ray.get(answer)
                    if report.finished:
                        open_orders.discard(order.id)
                        self.close(order.id)
                        begin()  # the group need not wait for the reader of the last report
                    yield order.id.removesuffix(f"#{call}"), report
                    # only now: the next checkpoint replaces this report, which may not be logged yet
                    if not report.finished:
                        ask(order, report.number)
        finally:
            with contextlib.suppress(ray.exceptions.RayError):
                ray.get([self.broker.close.remote(order_id) for order_id in open_orders])


@contextlib.contextmanager
def worker_pool(
    resources: Resources, locations: Locations, log: Callable[[str], None] = lambda text: None
) -> Iterator[WorkerPool]:
    """Run warm worker groups until the block ends."""
    # Ray takes the signals when it starts, so they are taken after it
    with ray_session(resources.address) as session, stop_signals(log) as stopped:
        plan = plan_resources(session, resources)
        broker = _start_broker(session)
        orders_per_start = 1 if resources.isolation == "trial" else None
        files = None if session.local else start_driver_files(locations)

        def make(index: int) -> WorkerGroup:
            return WorkerGroup(
                name=f"group-{index}",
                broker=broker,
                workers=plan.workers,
                use_gpu=plan.use_gpu,
                request=plan.request,
                scratch=str(session.scratch / "train"),
                orders_per_start=orders_per_start,
                files=files,
                grows=session.grows,
            )

        most, request = resources.concurrent, plan.request
        groups = GroupSet(make, broker, plan.concurrent, most, plan.workers, request, log)
        if not session.local:
            groups.follow()
        try:
            with _route(session, locations.store, log) as route, _watched_head(session, log):
                yield WorkerPool(session, plan, broker, groups, stopped, locations.store, route)
        finally:
            _end(broker, groups)


def finished_report(folder: Path) -> TrialReport | None:
    """Return the last report of the training in this folder when it has finished, else None."""
    if not (folder / "last" / checkpoint.CHECKPOINT).is_file():
        return None
    with contextlib.suppress(UserError):  # damaged: the worker reports it
        report = TrialReport(**checkpoint.load(folder / "last")[1]["report"])
        return report if report.finished else None
    return None


@contextlib.contextmanager
def _route(session: RaySession, store: Store, log: Callable[[str], None]) -> Iterator[Route | None]:
    """Yield how files reach the store; a private Ray on this machine needs no way."""
    if session.local:
        yield None
        return
    searches = store.searches
    address = f"{store.address}/{searches.relative_to(store.root)}" if store.address else ""
    with find_route(searches, address, session.namespace, log) as route:
        if address:
            store.note_writing_workers()
        yield route


def _watched_head(session: RaySession, log: Callable[[str], None]) -> AbstractContextManager[None]:
    if session.local:
        return contextlib.nullcontext()
    return head_watch(ray.get_runtime_context().gcs_address, log)


def _start_broker(session: RaySession) -> Any:
    options = {
        "name": BROKER,
        "namespace": session.namespace,
        "num_cpus": 0,
        "max_concurrency": 1000,
        "max_restarts": -1,  # empty is enough: questions carry their orders, checkpoints are on disk
        "max_task_retries": -1,
    }
    return ray.remote(Broker).options(**options).remote(hung_after=hung_after(), kill=kill_actor)


def hung_after() -> float | None:
    """Return the seconds after which a worker group without progress is restarted; None: as measured."""
    text = os.environ.get(HUNG_AFTER)
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise UserError(f"{HUNG_AFTER} must be a number of seconds above 0; got {readable(text)}. Unset it.")
    return seconds


def _end(broker: Any, groups: GroupSet) -> None:
    groups.end()
    with contextlib.suppress(ray.exceptions.RayError):
        ray.get(broker.stop.remote(), timeout=END_S)
    groups.join(END_S)
    ray.kill(broker, no_restart=True)
