"""Batch normalisation over the joined batch of all ranks (torch's SyncBatchNorm refuses the CPU)."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from dmltune.core import collectives


class _Normalise(torch.autograd.Function):
    """y = (x − m)/√(v + ε) with mean m and variance v of the joined batch; gives (y, m, v, values a channel).

    ∂L/∂x = (g − Σg/n − x̂·Σ(g·x̂)/n)/√(v + ε) with g = ∂L/∂y; both sums run over all ranks.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, epsilon: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        over = [d for d in range(x.dim()) if d != 1]
        shape = [1, -1] + [1] * (x.dim() - 2)
        count = x.numel() // x.shape[1]
        mean_C = x.mean(over)
        squares_C = (x - mean_C.view(shape)).square().sum(over)
        mine = torch.cat([mean_C, squares_C, mean_C.new_full((1,), count)]).unsqueeze(0)
        parts_WS = collectives.gather_equal(mine)
        means_WC, squares_WC = parts_WS[:, :-1].chunk(2, dim=1)
        counts_W1 = parts_WS[:, -1:]
        total = counts_W1.sum()
        joined_mean_C = (means_WC * counts_W1).sum(0) / total
        # Chan's formula: no cancellation, and one message instead of two.
        joined_var_C = (squares_WC + counts_W1 * (means_WC - joined_mean_C).square()).sum(0) / total
        scale_C = torch.rsqrt(joined_var_C + epsilon)
        normal = (x - joined_mean_C.view(shape)) * scale_C.view(shape)
        ctx.save_for_backward(normal, scale_C, total)
        ctx.mark_non_differentiable(joined_mean_C, joined_var_C, total)
        return normal, joined_mean_C, joined_var_C, total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        normal, scale_C, total = ctx.saved_tensors
        grad = gradients[0]
        over = [d for d in range(grad.dim()) if d != 1]
        shape = [1, -1] + [1] * (grad.dim() - 2)
        sums = torch.stack([grad.sum(over), (grad * normal).sum(over)])
        means_2C = collectives.all_reduce_sum(sums) / total
        inner = grad - means_2C[0].view(shape) - normal * means_2C[1].view(shape)
        return inner * scale_C.view(shape), None


class JointBatchNorm(_BatchNorm):
    """Batch norm with the statistics of the joined batch; the ordinary one when alone or frozen."""

    def forward(self, x: Tensor) -> Tensor:
        if not (self.training and collectives.world_size() > 1):
            return super().forward(x)
        # statistics of half types, and the number of values, need float32
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        normal, mean_C, var_C, total = _Normalise.apply(wide, self.eps)
        self._update_running(mean_C, var_C, total)
        shape = [1, -1] + [1] * (x.dim() - 2)
        if not self.affine:
            return cast(Tensor, normal).to(x.dtype)
        return torch.addcmul(self.bias.view(shape), normal, self.weight.view(shape)).to(x.dtype)

    def _update_running(self, mean_C: Tensor, var_C: Tensor, total: Tensor) -> None:
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked.add_(1)
        momentum: Any = self.momentum
        if momentum is None:  # a tensor: nothing is read on the host
            momentum = self.num_batches_tracked.to(mean_C.dtype).reciprocal()
        self.running_mean.lerp_(mean_C, momentum)
        self.running_var.lerp_(var_C * (total / (total - 1).clamp(min=1)), momentum)

    def _check_input_dim(self, x: Tensor) -> None:
        pass


class _JointBatchNormAct(JointBatchNorm):
    """timm's batch norm, which also drops and activates."""

    drop: nn.Module
    act: nn.Module

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.act(self.drop(super().forward(x)))
        return out


def synchronise_batch_norm(module: nn.Module) -> nn.Module:
    """Make every batch norm inside use the joined batch, in place; parameters, buffers and names stay."""
    for name, child in module.named_children():
        if type(child) in (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d):
            setattr(module, name, _converted(child, JointBatchNorm))
        elif isinstance(child, _BatchNorm) and hasattr(child, "act") and hasattr(child, "drop"):
            setattr(module, name, _converted(child, _JointBatchNormAct))
        elif isinstance(child, _BatchNorm) and not isinstance(child, JointBatchNorm | nn.SyncBatchNorm):
            raise TypeError(
                f"{type(child).__name__} cannot be computed over several ranks; freeze it (frozen_bn: true)"
            )
        else:
            synchronise_batch_norm(child)
    return module


def _converted(norm: nn.Module, cls: type[JointBatchNorm]) -> JointBatchNorm:
    joint = cls.__new__(cls)
    joint.__dict__ = norm.__dict__
    return joint
