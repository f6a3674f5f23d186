"""How the ranks of one worker group find each other.

The controller of a worker group imports this file, so torch is imported where it is used: in the workers.
A controller without torch starts in a third of the time.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import ray
from ray.train.backend import Backend, BackendConfig

LOOPBACK = "127.0.0.1"


@dataclass
class ProcessGroup(BackendConfig):
    """Torch's process group, without a public address when one machine is enough.

    A single worker needs no group. On loopback the ranks find each other by a file and gloo is bound to the
    loopback interface (torch's TCP store would listen on every address). On a cluster Ray's set-up is used.
    """

    backend: str  # nccl or gloo
    timeout_s: int = 1800

    @property
    def backend_cls(self) -> type[Backend]:
        return _ProcessGroupBackend

    @property
    def train_func_context(self) -> type[AbstractContextManager[Any]]:
        from ray.train.torch import TorchConfig

        context: type[AbstractContextManager[Any]] = TorchConfig().train_func_context
        return context


class _ProcessGroupBackend(Backend):
    share_cuda_visible_devices = True

    def on_start(self, worker_group: Any, backend_config: Any) -> None:
        if len(worker_group) == 1:
            return
        if set(worker_group.execute(ray.util.get_node_ip_address)) != {LOOPBACK}:
            from ray.train.torch import TorchConfig

            over_network = TorchConfig(backend=backend_config.backend, timeout_s=backend_config.timeout_s)
            over_network.backend_cls().on_start(worker_group, over_network)
            return
        rendezvous = Path(tempfile.gettempdir()) / f"dmltune-ranks-{os.getpid()}-{uuid.uuid4().hex}"
        joining = [
            worker_group.execute_single_async(
                rank,
                _join,
                rendezvous=str(rendezvous),
                backend=backend_config.backend,
                world_rank=rank,
                world_size=len(worker_group),
                timeout_s=backend_config.timeout_s,
            )
            for rank in range(len(worker_group))
        ]
        try:
            ray.get(joining)
        finally:
            rendezvous.unlink(missing_ok=True)

    def on_shutdown(self, worker_group: Any, backend_config: Any) -> None:
        if len(worker_group) > 1:
            worker_group.execute_async(_part)


def _join(rendezvous: str, backend: str, world_rank: int, world_size: int, timeout_s: int) -> None:
    import torch
    import torch.distributed
    from ray.train.torch.config import _set_torch_distributed_env_vars

    _set_torch_distributed_env_vars()  # type: ignore[no-untyped-call]
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    os.environ["NCCL_SOCKET_IFNAME"] = "lo"
    device = None
    if backend == "nccl":  # known from the start: no guess by the rank, and connections are made here
        from ray.train.torch import get_device

        device = get_device()
        torch.cuda.set_device(device)
    torch.distributed.init_process_group(
        backend=backend,
        init_method=f"file://{rendezvous}",
        rank=world_rank,
        world_size=world_size,
        timeout=timedelta(seconds=timeout_s),
        device_id=device,
    )


def _part() -> None:
    from ray.train.torch.config import _shutdown_torch

    _shutdown_torch(destroy_process_group=True)  # type: ignore[no-untyped-call]
