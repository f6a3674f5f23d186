"""How a slot starts: one Ray Train run whose workers stay warm and serve order after order."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

from dmltune.train.process_group import ProcessGroup
from dmltune.train.worker import slot_loop

MAX_LOST = 3  # conductors of one slot; who kills more of them means it

# What Ray Train starts for every group, a process each, and a group that only trains has no use for.
_NO_USE = {"DatasetsCallback"}  # hands out Ray Data; our images come from files
# On one machine everything ends with the driver, so nobody has to clean up after a lost one.
_NO_USE_HERE = _NO_USE | {"PlacementGroupCleanerCallback"}


class GroupTrainer(TorchTrainer):
    """Ray's trainer with as few processes beside the workers as the place allows.

    The list is Ray's internal matter: where another version makes it elsewhere, everything is started and
    works as before, only slower.
    """

    unwanted: frozenset[str] = frozenset()

    def _create_default_callbacks(self) -> list[Any]:
        everything = super()._create_default_callbacks()  # type: ignore[misc]
        return [callback for callback in everything if type(callback).__name__ not in self.unwanted]


@dataclass
class WorkerGroup:
    """One worker group, kept running by a thread of the driver until the broker says stop."""

    name: str
    broker: Any
    workers: int
    use_gpu: bool
    local: bool  # a Ray of our own, on this machine
    scratch: str  # Ray Train's own bookkeeping; nothing that lasts
    orders_per_start: int | None = None  # 1: --isolation trial
    error: BaseException | None = field(default=None, init=False)
    _ending: threading.Event = field(default_factory=threading.Event, init=False)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._keep_running, name=self.name, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Say that the next return of the group is the last one."""
        self._ending.set()

    def join(self, seconds: float) -> bool:
        """Wait for the group to end; False when it is still there."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _keep_running(self) -> None:
        starts = lost = 0
        while not self._ending.is_set():
            starts += 1
            try:
                self._trainer(f"{self.name}-{starts}").fit()
            except ray.exceptions.RayActorError as error:  # the process that conducts the group was killed
                lost += 1
                if lost == MAX_LOST:
                    self._give_up(error)
                    return
            except Exception as error:
                self._give_up(error)
                return
            else:
                if self.orders_per_start is None:
                    return

    def _give_up(self, error: BaseException) -> None:
        """Another slot may take what this one was working on."""
        if not self._ending.is_set():
            self.error = error
            self.broker.leave.remote(self.name)

    def _trainer(self, run_name: str) -> TorchTrainer:
        resources = {"GPU": 1.0} if self.use_gpu else {"CPU": 1.0}
        trainer = GroupTrainer(
            slot_loop,
            train_loop_config={"slot": self.name, "broker": self.broker, "orders": self.orders_per_start},
            scaling_config=ScalingConfig(
                num_workers=self.workers, use_gpu=self.use_gpu, resources_per_worker=resources
            ),
            torch_config=ProcessGroup("nccl" if self.use_gpu else "gloo"),  # type: ignore[arg-type]
            # attempts are counted per order by the broker, so Ray's own limit is off
            run_config=RunConfig(
                name=run_name, storage_path=self.scratch, failure_config=FailureConfig(max_failures=-1)
            ),
        )
        trainer.unwanted = frozenset(_NO_USE_HERE if self.local else _NO_USE)
        return trainer
