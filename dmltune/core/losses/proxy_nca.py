"""ProxyNCA++: the nearest proxy as a classifier with a temperature."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Gt
from torch import Tensor

from dmltune.core.losses._proxies import ProxyLoss, mean_cross_entropy


class ProxyNca(ProxyLoss):
    """Cross-entropy of −d²/T over all classes, the own one included, mean over the batch.

    d² = ‖x‖² + 1 − 2s, and terms of all classes cancel in the softmax: the logits are 2s/T, also exactly for
    an x shorter than 1.
    """

    def __init__(self, *, num_classes: int, dim: int, temperature: Annotated[float, Gt(0)] = 0.1) -> None:
        super().__init__(num_classes, dim)
        self.temperature = temperature

    def value(self, similarity: Tensor, labels_B: Tensor) -> Tensor:
        return mean_cross_entropy(similarity * (2 / self.temperature), labels_B)
