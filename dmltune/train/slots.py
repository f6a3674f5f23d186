"""All slots of one search, with their broker: started together, ended together."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import ray

from dmltune.train.broker import Broker
from dmltune.train.ray_session import ResourcePlan, Session
from dmltune.train.worker_group import WorkerGroup

BROKER = "broker"
END_S = 20.0  # how long a group may take to end by itself


@dataclass(frozen=True)
class Slots:
    broker: Any
    groups: tuple[WorkerGroup, ...]

    def failure(self) -> BaseException | None:
        """Why no group is left to train anything; None while there is one."""
        errors = [group.error for group in self.groups]
        return next((error for error in errors if error), None) if all(errors) else None


@contextlib.contextmanager
def running_slots(session: Session, plan: ResourcePlan, isolation: str) -> Iterator[Slots]:
    """Worker groups that serve orders until the block ends."""
    broker: Any = (
        ray.remote(Broker)
        .options(
            name=BROKER,
            namespace=session.namespace,
            num_cpus=0,
            max_concurrency=1000,
            max_restarts=-1,  # an empty broker is enough: orders are posted again, checkpoints are on disk
            max_task_retries=-1,
        )
        .remote()
    )
    groups = tuple(
        WorkerGroup(
            name=f"slot-{index}",
            broker=broker,
            workers=plan.workers,
            use_gpu=plan.use_gpu,
            local=session.local,
            scratch=str(session.scratch / "train"),
            orders_per_start=1 if isolation == "trial" else None,
        )
        for index in range(plan.concurrent)
    )
    for group in groups:
        group.start()
    try:
        yield Slots(broker, groups)
    finally:
        for group in groups:
            group.end()
        with contextlib.suppress(ray.exceptions.RayError):
            ray.get(broker.stop.remote(), timeout=END_S)
        deadline = time.monotonic() + END_S
        for group in groups:
            group.join(max(0.1, deadline - time.monotonic()))
        ray.kill(broker, no_restart=True)
