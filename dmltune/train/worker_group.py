"""How a worker group starts: one Ray Train run whose workers stay warm and serve order after order."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from ray.train.v2._internal.constants import get_env_vars_to_propagate
from ray.train.v2._internal.execution.controller import TrainController

from dmltune.train.deaths import DeathReports
from dmltune.train.fixed_size import FixedSize
from dmltune.train.placement_groups import remove_placement_groups_of
from dmltune.train.process_group import ProcessGroup
from dmltune.train.worker import serve_orders

MAX_LOST = 3  # give up after this many lost controllers in a row
LONG_S = 60.0  # a controller that has lived so long begins a new row

# Processes that Ray Train starts for every group: one for Ray Data, which is not used, and one that outlives
# the driver (placement_groups.py does its work).
_UNUSED = frozenset({"DatasetsCallback", "PlacementGroupCleanerCallback"})


class GroupTrainer(TorchTrainer):
    """Ray's trainer with as few helper processes as possible.

    The list of callbacks is internal to Ray. A version that makes it elsewhere starts them all, which is
    slower and not wrong.
    """

    controller: Any = None
    grows = True  # whether the cluster has an autoscaler

    def _create_default_callbacks(self) -> list[Any]:
        callbacks = super()._create_default_callbacks()  # type: ignore[misc]
        return [callback for callback in callbacks if type(callback).__name__ not in _UNUSED]

    def _initialize_and_run_controller(self, **options: Any) -> Any:
        """Start the controller beside the driver as Ray does, and keep its handle to end it early."""
        here = {"ray.io/node-id": ray.get_runtime_context().get_node_id()}
        environment = {"env_vars": get_env_vars_to_propagate()}
        if not self.grows:
            options["scaling_policy"] = FixedSize(self.scaling_config)  # type: ignore[arg-type]
        made = ray.remote(num_cpus=0, label_selector=here, runtime_env=environment)(TrainController)
        self.controller = made.remote(**options)
        ray.get(self.controller.run.remote())
        return ray.get(self.controller.get_result.remote())


@dataclass
class WorkerGroup:
    """One worker group, run by a thread of the driver until the broker says stop."""

    name: str
    broker: Any
    workers: int
    use_gpu: bool
    request: Mapping[str, float]  # of one worker, in Ray's names
    scratch: str  # Ray Train's own bookkeeping; nothing that lasts
    orders_per_start: int | None = None  # 1: --isolation trial
    files: Any = None  # the actor that reads what a worker's node lacks
    grows: bool = True  # an autoscaler adds nodes
    error: BaseException | None = field(default=None, init=False)
    _trainer_now: Any = field(default=None, init=False)
    _ending: threading.Event = field(default_factory=threading.Event, init=False)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Do not start the group again after its next return."""
        self._ending.set()

    def abandon(self) -> None:
        """End the group although it waits for resources, and give back what it holds of them."""
        self.end()
        trainer = self._trainer_now
        if trainer is not None and trainer.controller is not None:
            with contextlib.suppress(ray.exceptions.RayError, ValueError):
                ray.kill(trainer.controller, no_restart=True)
            self._free()

    @property
    def ending(self) -> bool:
        return self._ending.is_set()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def join(self, seconds: float) -> bool:
        """Wait for the group to end; return False when it has not."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        starts = lost = 0
        while not self._ending.is_set():
            starts += 1
            began = time.monotonic()
            try:
                self._trainer_now = self._trainer(f"{self.name}-{starts}")
                self._trainer_now.fit()
            except Exception as error:
                # after the session's end a call would start another Ray
                if self._ending.is_set() or not ray.is_initialized():
                    return
                self._free()
                if isinstance(error, ray.exceptions.RayActorError):  # the controller of the group was killed
                    lost = 1 if time.monotonic() - began > LONG_S else lost + 1
                    self._tell("lost", "its controller was lost", "node")
                    if lost < MAX_LOST:
                        continue
                self._give_up(error)
                return
            else:
                if self.orders_per_start is None:
                    return

    def _free(self) -> None:
        """Give back the resources that the lost controller held, and those that it was waiting for."""
        controller = None if self._trainer_now is None else self._trainer_now.controller
        if controller is not None:
            with contextlib.suppress(Exception):  # internal to Ray, or its head is gone
                remove_placement_groups_of(controller)

    def _tell(self, method: str, *arguments: str) -> None:
        with contextlib.suppress(ray.exceptions.RayError):
            getattr(self.broker, method).remote(self.name, *arguments)

    def _give_up(self, error: BaseException) -> None:
        """Leave the order of this group to another one."""
        self.error = error
        self._tell("resign")

    def _trainer(self, run_name: str) -> TorchTrainer:
        trainer = GroupTrainer(
            serve_orders,
            train_loop_config={
                "group": self.name,
                "broker": self.broker,
                "orders": self.orders_per_start,
                "files": self.files,
            },
            scaling_config=ScalingConfig(
                num_workers=self.workers, use_gpu=self.use_gpu, resources_per_worker=dict(self.request)
            ),
            torch_config=ProcessGroup("nccl" if self.use_gpu else "gloo"),  # type: ignore[arg-type]
            # the broker counts attempts per order, so Ray's own limit is off
            run_config=RunConfig(
                name=run_name,
                storage_path=self.scratch,
                failure_config=FailureConfig(max_failures=-1),
                callbacks=[DeathReports(self.name, self.broker)],  # type: ignore[list-item]
            ),
        )
        trainer.grows = self.grows
        return trainer
