"""Metric cross-entropy (seed 002): a cross-entropy that is a metric between probability vectors.

d(x, y) = −log(1 + a − b t^p) + log(1 + a) = −log(1 − k t^p) with t = |x − y| and k = b/(a + 1), and
L(x, y) = F(Σ_i d(x_i, y_i)). With a concave, increasing F and F(0) = 0 it is a metric where d is (lemma 2).
B samples, C classes.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

import torch
from annotated_types import Ge, Gt, Interval
from torch import Tensor
from torch.nn import functional as F

from dmltune.core.geometry import at_least_float32, taking_part
from dmltune.core.losses._proxies import ProxyLoss, own_class
from dmltune.errors import UserError

Outer = Literal["identity", "power", "log"]
POWER, RATE = 0.5, 1.0  # of F, where nothing is chosen
_NEAR = 1e-6  # below this |x − y| the slope of |x − y|^p stays constant


def is_metric(a: float, b: float, p: float) -> bool:
    """2^(p+1) − 2^(2p) ≥ b/(a+1), which is p ≤ log₂(1 + √(1 − b/(a+1))); so p < 1 always."""
    return a > -1 and 0 < b <= a + 1 and 0 < p < 1 and 2 ** (p + 1) - 2 ** (2 * p) >= b / (a + 1)


def distance(x_BC: Tensor, y_BC: Tensor, a: float, b: float, p: float) -> Tensor:
    """Σ_i d(x_i, y_i), which is L(x, y) with F the identity, (B,). x and y in [0, 1]."""
    gap_BC = (at_least_float32(x_BC) - at_least_float32(y_BC)).abs()
    at_BC = gap_BC.detach()
    # for p < 1 the slope p·t^(p−1) is infinite at t = 0: it is held there, while the value stays exact
    slope_BC = p * at_BC.clamp(min=_NEAR) ** (p - 1)
    power_BC = at_BC**p + slope_BC * (gap_BC - at_BC)
    return -torch.log1p(-b / (a + 1) * power_BC).sum(-1)


def concave(total_B: Tensor, outer: Outer, power: float = POWER, rate: float = RATE) -> Tensor:
    """F of Σ_i d(x_i, y_i) ≥ 0: u itself, u^power with power ≤ 1, or log(1 + rate·u)/rate."""
    if outer == "log":
        return torch.log1p(rate * total_B) / rate
    if outer == "power":
        # u^power has an infinite slope at u = 0, where the sample has nothing to lose: u is taken there
        positive_B = total_B > torch.finfo(total_B.dtype).tiny
        return torch.where(positive_B, torch.where(positive_B, total_B, 1.0) ** power, total_B)
    return total_B


class MetricCrossEntropy(ProxyLoss):
    """Mean over the batch of L(x, y): x = softmax(s / temperature), y the one-hot label.

    `outer` is F: identity, power (u^power) or log (log(1 + rate·u)/rate); a smaller power and a larger rate
    let samples far from their class pull less. `power` and `rate` are for their own F only.
    `metric: strict` requires a metric, `metric: weak` takes any b ≤ a + 1: (a, b, p) = (0, 1, 1) is the plain
    extension of cross-entropy, a weak metric. In a search space the condition is
    `require: 2**(loss.p+1) - 2**(2*loss.p) >= loss.b/(loss.a+1)`. Computed from log x and log(1 − x), where
    the gradient is bounded for every p without a clamp, also for samples far from their class.
    """

    def __init__(
        self,
        *,
        num_classes: int,
        dim: int,
        a: Annotated[float, Ge(0)] = 1.0,
        b: Annotated[float, Gt(0)] = 1.0,
        p: Annotated[float, Interval(gt=0, le=1)] = 0.75,
        temperature: Annotated[float, Gt(0)] = 0.1,
        metric: Literal["strict", "weak"] = "strict",
        outer: Outer = "identity",
        power: Annotated[float | None, Interval(gt=0, le=1)] = None,
        rate: Annotated[float | None, Interval(gt=0, le=1e6)] = None,
    ) -> None:
        super().__init__(num_classes, dim)
        if b > a + 1:
            raise UserError(f"b must be at most a + 1; got {b:g} and a {a:g}. Use b: {a + 1:g} or less.")
        if metric == "strict" and not is_metric(a, b, p):
            raise UserError(_no_metric(a, b, p))
        for name, value, its in (("power", power, "power"), ("rate", rate, "log")):
            if value is not None and outer != its:
                raise UserError(f"{name} is for outer: {its}; got {value:g} with {outer}. Leave it out.")
        self.k, self.p, self.temperature = b / (a + 1), p, temperature
        self.outer: Outer = outer
        self.power, self.rate = POWER if power is None else power, RATE if rate is None else rate

    def value(self, similarity: Tensor, labels_B: Tensor) -> Tensor:
        own_B1 = own_class(labels_B)
        log_x_BC = F.log_softmax(similarity / self.temperature, -1)
        log_rest_BC = _log_one_minus(log_x_BC)
        # t is x, but 1 − x in the column of the label
        log_t_BC = log_x_BC.scatter(1, own_B1, log_rest_BC.gather(1, own_B1))
        log_not_t_BC = log_rest_BC.scatter(1, own_B1, log_x_BC.gather(1, own_B1))
        total_B = self._d(log_t_BC, log_not_t_BC).sum(1)
        total_B = torch.where(labels_B >= 0, total_B, 0)  # F(0) = 0
        return concave(total_B, self.outer, self.power, self.rate).sum() / taking_part(labels_B)

    def _d(self, log_t: Tensor, log_not_t: Tensor) -> Tensor:
        """−log(1 − k t^p) from log t and log(1 − t), elementwise.

        t ≤ ½: as it stands. t > ½: 1 − k t^p = (1 − k) + k(1 − t^p) with 1 − t^p from 1 − t; below the
        machine precision 1 − t^p = p(1 − t). The clamps keep what `where` drops finite.
        """
        small = -torch.log1p(-self.k * (self.p * log_t.clamp(max=-0.5)).exp())
        held = log_not_t.clamp(math.log(torch.finfo(log_t.dtype).eps), -0.5)
        log_gap = torch.log(-torch.expm1(self.p * torch.log1p(-held.exp()))) + (log_not_t - held)
        floor = log_gap.new_full((), 1 - self.k).log()
        large = -torch.logaddexp(floor, log_gap + math.log(self.k))
        return torch.where(log_not_t < math.log(0.5), large, small)


def _log_one_minus(log_x_BC: Tensor) -> Tensor:
    """log(1 − x) of probabilities; of the largest as the log of the sum of all others."""
    top_B1 = log_x_BC.argmax(-1, keepdim=True)
    others_BC = log_x_BC.scatter(-1, top_B1, torch.finfo(log_x_BC.dtype).min)
    return torch.log1p(-others_BC.exp()).scatter(-1, top_B1, others_BC.logsumexp(-1, keepdim=True))


def _no_metric(a: float, b: float, p: float) -> str:
    k, got = b / (a + 1), 2 ** (p + 1) - 2 ** (2 * p)
    largest = math.floor(1e4 * math.log2(1 + math.sqrt(1 - k))) / 1e4
    remedy = f"Use p: {largest:g} or less" if largest > 0 else f"Use b below {a + 1:g} and a smaller p"
    return (
        f"a metric needs 2^(p+1) - 2^(2p) of at least b/(a+1) = {k:.4g}; got {got:.4g} at p {p:g}. "
        f"{remedy}, or metric: weak for one that is none."
    )
