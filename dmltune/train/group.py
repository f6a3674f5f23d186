"""How a slot starts: one Ray Train run whose workers stay warm and serve order after order."""

from __future__ import annotations

import os
import tempfile
import threading
import uuid
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import ray
import torch.distributed
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.backend import Backend
from ray.train.torch import TorchConfig, TorchTrainer
from ray.train.torch.config import _set_torch_distributed_env_vars, _shutdown_torch, _TorchBackend

from dmltune.train.worker import slot_loop

LOOPBACK = "127.0.0.1"


@dataclass
class LoopbackFirst(TorchConfig):
    """Torch's process group without listening on a public address when one machine is enough.

    A lone worker needs no group. On loopback ranks meet in a file and gloo is bound to the loopback interface
    (torch's TCP store would listen on every address). On a cluster Ray's own set-up is used.
    """

    @property
    def backend_cls(self) -> type[Backend]:
        return _LoopbackFirstBackend


class _LoopbackFirstBackend(_TorchBackend):
    def on_start(self, worker_group: Any, backend_config: Any) -> None:
        if len(worker_group) == 1:
            return
        if set(worker_group.execute(ray.util.get_node_ip_address)) != {LOOPBACK}:
            super().on_start(worker_group, backend_config)
            return
        worker_group.execute(_set_torch_distributed_env_vars)
        meeting_file = Path(tempfile.gettempdir()) / f"dmltune-ranks-{os.getpid()}-{uuid.uuid4().hex}"
        gpus = worker_group.get_resources_per_worker().get("GPU", 0)
        joining = [
            worker_group.execute_single_async(
                rank,
                _join,
                meeting_file=str(meeting_file),
                backend="nccl" if gpus else "gloo",
                world_rank=rank,
                world_size=len(worker_group),
                timeout_s=backend_config.timeout_s,
            )
            for rank in range(len(worker_group))
        ]
        try:
            ray.get(joining)
        finally:
            meeting_file.unlink(missing_ok=True)

    def on_shutdown(self, worker_group: Any, backend_config: Any) -> None:
        if len(worker_group) > 1:
            worker_group.execute_async(_shutdown_torch, destroy_process_group=True)


def _join(meeting_file: str, backend: str, world_rank: int, world_size: int, timeout_s: int) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    os.environ["NCCL_SOCKET_IFNAME"] = "lo"
    torch.distributed.init_process_group(
        backend=backend,
        init_method=f"file://{meeting_file}",
        rank=world_rank,
        world_size=world_size,
        timeout=timedelta(seconds=timeout_s),
    )


@dataclass
class Slot:
    """One worker group, kept running by a thread of the driver until the broker says stop."""

    name: str
    broker: Any
    workers: int
    use_gpu: bool
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
        starts = 0
        while not self._ending.is_set():
            starts += 1
            try:
                self._trainer(f"{self.name}-{starts}").fit()
            except Exception as error:
                if not self._ending.is_set():
                    self.error = error
                return
            if self.orders_per_start is None:
                return

    def _trainer(self, run_name: str) -> TorchTrainer:
        resources = {"GPU": 1.0} if self.use_gpu else {"CPU": 1.0}
        return TorchTrainer(
            slot_loop,
            train_loop_config={"slot": self.name, "broker": self.broker, "orders": self.orders_per_start},
            scaling_config=ScalingConfig(
                num_workers=self.workers, use_gpu=self.use_gpu, resources_per_worker=resources
            ),
            torch_config=LoopbackFirst(),
            # attempts are counted per order by the broker, so Ray's own limit is off
            run_config=RunConfig(
                name=run_name, storage_path=self.scratch, failure_config=FailureConfig(max_failures=-1)
            ),
        )
