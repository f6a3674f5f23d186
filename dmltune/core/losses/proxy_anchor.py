"""Proxy-Anchor: every proxy is an anchor that pulls its samples and pushes all others."""

from __future__ import annotations

from typing import Annotated

import torch
from annotated_types import Gt, Interval
from torch import Tensor
from torch.nn import functional as F

from dmltune.core.losses._proxies import ProxyLoss


class ProxyAnchor(ProxyLoss):
    """Σ_c log(1 + Σ_{y_i = c} exp(−α(s_ic − δ))) / C⁺ + Σ_c log(1 + Σ_{y_i ≠ c} exp(α(s_ic + δ))) / C.

    B samples, C classes, C⁺ of them in the batch. Other classes add nothing to the first sum.
    """

    def __init__(
        self,
        *,
        num_classes: int,
        dim: int,
        delta: Annotated[float, Interval(ge=0, le=2)] = 0.1,
        alpha: Annotated[float, Gt(0)] = 32.0,
    ) -> None:
        super().__init__(num_classes, dim)
        self.delta, self.alpha = delta, alpha

    def value(self, similarity: Tensor, labels_B: Tensor) -> Tensor:
        own_BC = labels_B.unsqueeze(1) == torch.arange(similarity.shape[1], device=labels_B.device)
        pull_C = _log_one_plus_sum(-self.alpha * (similarity - self.delta), own_BC)
        push_C = _log_one_plus_sum(
            self.alpha * (similarity + self.delta), ~own_BC & (labels_B >= 0).unsqueeze(1)
        )
        return pull_C.sum() / own_BC.any(0).sum().clamp(min=1) + push_C.mean()


def _log_one_plus_sum(exponent_BC: Tensor, chosen_BC: Tensor) -> Tensor:
    """log(1 + Σ_i exp(e_ic)) over the chosen samples, (C,): a first row of zeros is the 1."""
    return F.pad(exponent_BC.masked_fill(~chosen_BC, -torch.inf), (0, 0, 1, 0)).logsumexp(0)
