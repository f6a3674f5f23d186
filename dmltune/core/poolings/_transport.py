"""Partial entropic transport of N features to M prototypes (P2), its solution and its gradient.

B images, M prototypes, N local features. With α_j = log Σ_i exp(−ε c_ij) and u_j = log t + α_j the fixed
point of proposition 5.2.1 is

    ρ_j = σ(−u_j)/N,   π_ij = softmax_i(−ε c_ij) σ(u_j)/N,   (1/N) Σ_j σ(u_j) = μ,

one increasing equation in the scalar log t per image. In this form nothing underflows and no near numbers are
subtracted, also for μ near 0 or 1.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from dmltune.core.fixed_shapes import fixed_shapes
from dmltune.core.plain_graph import plain_graph

_PASSES = 100  # more than bisection alone would need; three to six are usual
_FIXED_PASSES = 20  # where the host does not see when all are done: on a device, and in an exported network


class Transport(NamedTuple):
    """π (B, M, N), the mass from each feature to each prototype, and ρ (B, N), the rest of a feature."""

    plan_BMN: Tensor
    residual_BN: Tensor


def transport(cost_BMN: Tensor, mu: float, epsilon: float, iterations: int | None = None) -> Transport:
    """argmin Σ c π + (Σ π log π + Σ ρ log ρ)/ε with ρ_j + Σ_i π_ij = 1/N and Σ_ij π_ij = μ (P2).

    Solved to machine precision, or by `iterations` passes of proposition 5.2.1 from t = 1. The gradient is
    that of the solution either way (as the authors do): after few passes it is as approximate as they are. μ
    = 1 leaves nothing: ρ = 0 and π = softmax_i(−ε c)/N, without a pass.
    """
    return Transport(*partial_transport(cost_BMN, mu, epsilon, iterations)[:2])


def partial_transport(
    cost_BMN: Tensor, mu: float, epsilon: float, iterations: int | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (π, ρ, 1/N − ρ), the third as the Σ_i π_ij of the solution with all its digits."""
    if not (0 < mu <= 1 and epsilon > 0 and (iterations is None or iterations >= 1)):
        raise ValueError(
            "mu must be above 0 and at most 1, epsilon above 0, iterations None or at least 1; "
            f"got {mu}, {epsilon} and {iterations}"
        )
    cost_BMN = cost_BMN.to(torch.promote_types(cost_BMN.dtype, torch.float32))
    if plain_graph():
        share_BMN, logit_BN, mass_BN = _solution(cost_BMN, mu, epsilon, iterations)
        plan_BMN, count = share_BMN * mass_BN.unsqueeze(-2), cost_BMN.shape[-1]
        return plan_BMN, torch.sigmoid(-logit_BN) / count, torch.sigmoid(logit_BN) / count
    plan_BMN, residual_BN, taken_BN = _PartialTransport.apply(cost_BMN, mu, epsilon, iterations)
    return plan_BMN, residual_BN, taken_BN


class _PartialTransport(torch.autograd.Function):
    """Saves softmax_i(−ε c), u and the column sums of π, however many passes were made."""

    @staticmethod
    def forward(
        ctx: Any, cost_BMN: Tensor, mu: float, epsilon: float, iterations: int | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        count = cost_BMN.shape[-1]
        share_BMN, logit_BN, mass_BN = _solution(cost_BMN, mu, epsilon, iterations)
        taken_BN, residual_BN = torch.sigmoid(logit_BN) / count, torch.sigmoid(-logit_BN) / count
        ctx.mu, ctx.epsilon = mu, epsilon
        ctx.save_for_backward(share_BMN, logit_BN, mass_BN)
        ctx.set_materialize_grads(False)
        return share_BMN * mass_BN.unsqueeze(-2), residual_BN, taken_BN

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(
        ctx: Any, grad_plan_BMN: Tensor | None, grad_residual_BN: Tensor | None, grad_taken_BN: Tensor | None
    ) -> tuple[Tensor, None, None, None]:
        """∂L/∂c_ij = −ε π_ij (G_ij − ḡ_j − N ρ_j (δ_j − λ)), the corrected eq. 5.2.2 without cancellation.

        G, g are ∂L/∂π, ∂L/∂ρ; ḡ_j = Σ_i π_ij G_ij / Σ_i π_ij, δ_j = g_j − ḡ_j, and η/κ = λ is the mean of
        the δ_j with weights ρ_j (1/N − ρ_j), because κ = N Σ_j ρ_j (1/N − ρ_j).
        """
        share_BMN, logit_BN, mass_BN = ctx.saved_tensors
        mean_BN = torch.zeros_like(logit_BN)
        if grad_plan_BMN is not None:
            mean_BN = (share_BMN * grad_plan_BMN).sum(-2)
        pull_BN = -mean_BN
        if grad_residual_BN is not None:
            pull_BN = pull_BN + grad_residual_BN
        if grad_taken_BN is not None:
            pull_BN = pull_BN - grad_taken_BN
        if ctx.mu < 1:  # at μ = 1 there is no ρ, and the weights of λ are all 0
            weight_BN = torch.softmax(logsigmoid(logit_BN) + logsigmoid(-logit_BN), -1)
            multiplier_B1 = (weight_BN * pull_BN).sum(-1, keepdim=True)
            mean_BN = mean_BN + torch.sigmoid(-logit_BN) * (pull_BN - multiplier_B1)
        scale_BN = mass_BN * -ctx.epsilon
        if grad_plan_BMN is None:
            return share_BMN * (scale_BN * -mean_BN).unsqueeze(-2), None, None, None
        grad_BMN = grad_plan_BMN - mean_BN.unsqueeze(-2)
        return grad_BMN.mul_(share_BMN).mul_(scale_BN.unsqueeze(-2)), None, None, None


def _solution(
    cost_BMN: Tensor, mu: float, epsilon: float, iterations: int | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return softmax_i(−ε c), u, and the column sums of π."""
    share_BMN = cost_BMN * -epsilon
    largest_B1N = share_BMN.amax(-2, keepdim=True)
    share_BMN.sub_(largest_B1N).exp_()
    total_B1N = share_BMN.sum(-2, keepdim=True)
    share_BMN.div_(total_B1N)
    logit_BN, growth_B1 = _solve((largest_B1N + total_B1N.log()).squeeze(-2), mu, iterations)
    return share_BMN, logit_BN, torch.sigmoid(logit_BN) / cost_BMN.shape[-1] * growth_B1


def _solve(alpha_BN: Tensor, mu: float, iterations: int | None) -> tuple[Tensor, Tensor]:
    """Return (u, growth of t in the last pass: 1 at the solution)."""
    if mu == 1:
        return torch.full_like(alpha_BN, torch.inf), torch.ones_like(alpha_BN[..., :1])
    # N numbers an image: float64 costs nothing and keeps the sum over N from hiding a single feature
    exact_BN = alpha_BN if alpha_BN.device.type == "mps" else alpha_BN.double()
    solved = _newton(exact_BN, mu) if iterations is None else _printed(exact_BN, mu, iterations)
    return solved[0].to(alpha_BN.dtype), solved[1].to(alpha_BN.dtype)


def _newton(alpha_BN: Tensor, mu: float) -> tuple[Tensor, Tensor]:
    """Return the root x = log t of h(x) = logit(mean_j σ(x + α_j)) − logit μ, of slope in (0, 1].

    Newton's steps; the bracket is halved instead if a step leaves it or does not halve the one before.
    """
    count, target, eps = alpha_BN.shape[-1], math.log(mu) - math.log1p(-mu), torch.finfo(alpha_BN.dtype).eps
    low_B1, high_B1 = target - alpha_BN.amax(-1, keepdim=True), target - alpha_BN.amin(-1, keepdim=True)
    # exact for equal α, near for normal ones: E σ(x + α) ≈ σ((x + mean) / √(1 + π/8·variance))
    widened_B1 = target * (1 + math.pi / 8 * alpha_BN.var(-1, correction=0, keepdim=True)).sqrt()
    x_B1 = torch.clamp(widened_B1 - alpha_BN.mean(-1, keepdim=True), low_B1, high_B1)
    before_B1 = high_B1 - low_B1
    done_B1 = torch.zeros_like(x_B1, dtype=torch.bool)
    fixed = plain_graph() or fixed_shapes(alpha_BN)
    for _ in range(_FIXED_PASSES if fixed else _PASSES):
        logit_BN = x_B1 + alpha_BN
        up_BN, down_BN = torch.sigmoid(logit_BN), torch.sigmoid(-logit_BN)
        up_B1, down_B1 = up_BN.sum(-1, keepdim=True), down_BN.sum(-1, keepdim=True)
        gap_B1 = (up_B1 / down_B1).log() - target
        slope_B1 = count * (up_BN * down_BN).sum(-1, keepdim=True) / (up_B1 * down_B1)
        done_B1 = done_B1 | (gap_B1.abs() <= 4 * eps * (1 + abs(target)))
        low_B1 = torch.where(gap_B1 <= 0, x_B1, low_B1)
        high_B1 = torch.where(gap_B1 >= 0, x_B1, high_B1)
        next_B1 = x_B1 - gap_B1 / slope_B1
        step_B1 = (next_B1 - x_B1).abs()
        newton_B1 = (next_B1 >= low_B1) & (next_B1 <= high_B1) & (step_B1 <= before_B1 / 2)
        next_B1 = torch.where(newton_B1, next_B1, (low_B1 + high_B1) / 2)
        before_B1 = (next_B1 - x_B1).abs()
        x_B1 = torch.where(done_B1, x_B1, next_B1)
        done_B1 = done_B1 | (newton_B1 & (step_B1 <= eps**0.5))  # the error after it is its square
        if not fixed and bool(done_B1.all()):
            break
    return x_B1 + alpha_BN, torch.ones_like(x_B1)


def _printed(alpha_BN: Tensor, mu: float, iterations: int) -> tuple[Tensor, Tensor]:
    """Proposition 5.2.1: ρ = (1/N)/(1 + t a), then t = μ/Σ_j a_j ρ_j, repeated; a = exp α."""
    x_B1 = torch.zeros_like(alpha_BN[..., :1])
    for _ in range(iterations):
        logit_BN = x_B1 + alpha_BN
        mean_B1 = logsigmoid(logit_BN).logsumexp(-1, keepdim=True) - math.log(alpha_BN.shape[-1])
        growth_B1 = math.log(mu) - mean_B1
        x_B1 = x_B1 + growth_B1
    return logit_BN, growth_B1.exp()
