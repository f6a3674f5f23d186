"""CosFace: softmax over cosines with an additive margin on the cosine of the own class."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Gt, Interval
from torch import Tensor

from dmltune.core.losses._proxies import ProxyLoss, mean_cross_entropy, own_class


class Cosface(ProxyLoss):
    """Cross-entropy of scale·(s_ic − margin·[c = y_i]) over all classes, mean over the batch."""

    def __init__(
        self,
        *,
        num_classes: int,
        dim: int,
        scale: Annotated[float, Gt(0)] = 64.0,
        margin: Annotated[float, Interval(ge=0, le=2)] = 0.35,
    ) -> None:
        super().__init__(num_classes, dim)
        self.scale, self.margin = scale, margin

    def value(self, similarity: Tensor, labels_B: Tensor) -> Tensor:
        margin_B1 = similarity.new_full((len(labels_B), 1), -self.margin)
        logits_BC = self.scale * similarity.scatter_add(1, own_class(labels_B), margin_B1)
        return mean_cross_entropy(logits_BC, labels_B)
