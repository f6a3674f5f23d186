"""ArcFace: softmax over cosines with an additive margin on the angle to the own class."""

from __future__ import annotations

import math
from typing import Annotated

import torch
from annotated_types import Gt, Interval
from torch import Tensor

from dmltune.core.losses._proxies import ProxyLoss, mean_cross_entropy, own_class

_FLAT = 1e-8  # sin²θ below which the sine is linear in sin²θ: √ has an infinite gradient at 0


class Arcface(ProxyLoss):
    """Cross-entropy of scale·cos(θ_ic + margin·[c = y_i]), cos θ = s, over all classes, batch mean.

    The margin is in radians. cos(θ + m) rises again beyond θ = π − m; there the logit of the own class is cos
    θ − m·sin m, as usual: it falls with θ everywhere, with a small step down at π − m (m up to π/2). An s
    outside [−1, 1], which no unit embedding has, counts as sin θ = 0.
    """

    def __init__(
        self,
        *,
        num_classes: int,
        dim: int,
        scale: Annotated[float, Gt(0)] = 64.0,
        margin: Annotated[float, Interval(ge=0, le=math.pi / 2)] = 0.5,
    ) -> None:
        super().__init__(num_classes, dim)
        self.scale, self.margin = scale, margin

    def value(self, similarity: Tensor, labels_B: Tensor) -> Tensor:
        own_B1 = own_class(labels_B)
        shifted_B1 = shifted_cosine(similarity.gather(1, own_B1), self.margin)
        return mean_cross_entropy(self.scale * similarity.scatter(1, own_B1, shifted_B1), labels_B)


def shifted_cosine(cosine: Tensor, margin: float) -> Tensor:
    """cos(θ + m) = cos θ cos m − sin θ sin m of cos θ; cos θ − m·sin m for θ ≥ π − m."""
    square = ((1 - cosine) * (1 + cosine)).clamp(min=0)
    # not in the paper: linear below _FLAT, so that the gradient is finite at cos θ = ±1
    sine = torch.where(square > _FLAT, square.clamp(min=_FLAT).sqrt(), square / math.sqrt(_FLAT))
    before = cosine * math.cos(margin) - sine * math.sin(margin)
    return torch.where(cosine > -math.cos(margin), before, cosine - margin * math.sin(margin))
