"""L2-softmax: the softmax classifier on embeddings of one fixed norm."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Gt
from torch import Tensor

from dmltune.core.losses._proxies import ProxyLoss, mean_cross_entropy


class L2Softmax(ProxyLoss):
    """Cross-entropy of scale·s over all classes, mean over the batch.

    Its paper leaves the class vectors at any norm and adds a bias; here they are unit vectors without one,
    as in every loss with proxies, so that training compares what retrieval compares: directions.
    """

    def __init__(self, *, num_classes: int, dim: int, scale: Annotated[float, Gt(0)] = 32.0) -> None:
        super().__init__(num_classes, dim)
        self.scale = scale

    def value(self, similarity: Tensor, labels_B: Tensor) -> Tensor:
        return mean_cross_entropy(self.scale * similarity, labels_B)
