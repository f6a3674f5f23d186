"""The transport problem of generalized sum pooling, solved by bisection."""

from __future__ import annotations

import torch
from torch import Tensor

DIM, BATCH = 12, 2


MUS, EPSILONS = [0.1, 0.3, 0.5, 0.9, 0.99, 1.0], [0.1, 0.5, 5.0, 20.0]


SIZES = [(n, m) for n in (1, 49, 400) for m in (1, 64, 128)]


def problem(count: int, prototypes: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Features longer and shorter than 1, prototypes that some of them are near to."""
    generator = torch.Generator().manual_seed(seed)
    features_BND = torch.randn(BATCH, count, DIM, generator=generator, dtype=torch.float64) * 0.4
    noise_MD = torch.randn(prototypes, DIM, generator=generator, dtype=torch.float64) * 0.2
    return features_BND, features_BND[0, torch.arange(prototypes) % count] + noise_MD


def cost_of(features_BND: Tensor, prototypes_MD: Tensor) -> Tensor:
    near = features_BND / features_BND.norm(dim=-1, keepdim=True).clamp(min=1)
    proto = prototypes_MD / prototypes_MD.norm(dim=-1, keepdim=True).clamp(min=1)
    return (proto[None, :, None] - near[:, None]).norm(dim=-1)


def solution(cost_BMN: Tensor, mu: float, epsilon: float) -> tuple[Tensor, Tensor]:
    """(π, ρ) as printed, with t by bisection; its derivative by the implicit function theorem."""
    kernel_BMN, count = (-epsilon * cost_BMN).exp(), cost_BMN.shape[-1]
    near_BN = kernel_BMN.sum(1)
    if mu == 1:
        return kernel_BMN / near_BN.unsqueeze(1) / count, torch.zeros_like(near_BN)
    with torch.no_grad():
        low = torch.full_like(near_BN[:, :1], -100.0)
        high = -low
        for _ in range(120):
            moved_BN = ((low + high) / 2).exp() * near_BN
            less = (moved_BN / (1 + moved_BN)).mean(-1, keepdim=True) < mu
            low, high = torch.where(less, (low + high) / 2, low), torch.where(less, high, (low + high) / 2)
        moved_BN = low.exp() * near_BN
        slope = (moved_BN / (1 + moved_BN) ** 2).mean(-1, keepdim=True)
    moved_BN = low.exp() * near_BN
    t = (low - ((moved_BN / (1 + moved_BN)).mean(-1, keepdim=True) - mu) / slope).exp()
    residual_BN = 1 / count / (1 + t * near_BN)
    return t.unsqueeze(1) * kernel_BMN * residual_BN.unsqueeze(1), residual_BN


def gradients(outputs: tuple[Tensor, ...], inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Of a fixed random linear function of the outputs."""
    generator = torch.Generator().manual_seed(9)
    upstream = [torch.randn(o.shape, generator=generator, dtype=torch.float64).to(o) for o in outputs]
    return torch.autograd.grad(outputs, inputs, upstream)
