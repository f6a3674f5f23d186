"""Communication between the ranks of one training; the identity without torch.distributed.

Every rank computes the loss L of the joined batch, and one DistributedDataParallel averages the parameters'
gradients. The backward of `gather_with_gradient` sums over the W ranks, so rank r sends W · ∂L/∂x_r into its
own part of the graph. The mean over the ranks is Σ_r ∂L/∂x_r · ∂x_r/∂θ = ∂L/∂θ; what every rank holds whole
(proxies, penalties) is averaged to itself. Nothing is scaled by the number of ranks.
"""

from __future__ import annotations

from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor


def _active() -> bool:
    return dist.is_available() and dist.is_initialized()


def world_size() -> int:
    return dist.get_world_size() if _active() else 1


def rank() -> int:
    return dist.get_rank() if _active() else 0


def device() -> torch.device:
    """Return where the backend wants the numbers that ranks exchange."""
    if dist.get_backend() == "nccl":
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def set_timeout(seconds: float) -> None:
    """Set how long a rank waits for the others, from now on."""
    if world_size() > 1:
        dist.distributed_c10d._set_pg_timeout(timedelta(seconds=seconds), dist.group.WORLD)


def all_reduce_sum(x: Tensor) -> Tensor:
    """Return the sum over the ranks (a new tensor), without gradient."""
    if world_size() == 1:
        return x.detach()
    total = x.detach().clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total)
    return total


def broadcast_(x: Tensor) -> Tensor:
    """Overwrite `x` with rank 0's values and return it."""
    if world_size() > 1:
        values = x.detach().contiguous()
        dist.broadcast(values, src=0)
        with torch.no_grad():
            x.copy_(values)
    return x


def broadcast_number(value: float) -> float:
    """Return rank 0's number, exactly, on every rank."""
    if world_size() == 1:
        return value
    number = torch.tensor([value], dtype=torch.float64, device=device())
    dist.broadcast(number, src=0)
    return float(number.item())


def _parts(x: Tensor) -> list[Tensor]:
    parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(world_size())]
    dist.all_gather(parts, x.detach().contiguous())
    return parts


def gather_equal(x: Tensor) -> Tensor:
    """Concatenate equal shapes over the ranks in their order, without gradient."""
    return x.detach() if world_size() == 1 else torch.cat(_parts(x))


def gather(x: Tensor) -> Tensor:
    """Concatenate over the ranks in their order, without gradient; first dimensions may differ."""
    if world_size() == 1:
        return x.detach()
    sizes = gather_equal(torch.tensor([x.shape[0]], device=device())).tolist()
    padded = x.new_zeros((max(sizes), *x.shape[1:]))
    padded[: x.shape[0]] = x.detach()
    return torch.cat([part[:size] for part, size in zip(_parts(padded), sizes, strict=True)])


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor) -> Tensor:
        return gather_equal(x)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, *gradients: Tensor) -> Tensor:
        return all_reduce_sum(gradients[0]).chunk(world_size())[rank()]


def gather_with_gradient(x: Tensor) -> Tensor:
    """Concatenate equal shapes over the ranks; the backward sums and returns the local slice."""
    if world_size() == 1:
        return x
    joined: Tensor = _Gather.apply(x)
    return joined
