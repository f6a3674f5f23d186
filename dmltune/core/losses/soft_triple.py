"""SoftTriple: several proxies a class, softly assigned, and a pull that merges superfluous ones."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Gt, Interval
from torch import Tensor

from dmltune.core.geometry import pairwise_distance
from dmltune.core.losses._proxies import ProxyLoss, mean_cross_entropy, own_class


class SoftTriple(ProxyLoss):
    """Cross-entropy of λ(S_ic − δ[c = y_i]) with S_ic = Σ_k softmax_k(s_ick / γ) s_ick, batch mean, …

    … + τ Σ_c Σ_{k<l} ‖p_ck − p_cl‖ / (C K (K − 1)), which is 0 for K = 1. B samples, C classes, K proxies a
    class; `scale` is λ. γ divides: where a table prints a factor, such as the thesis' 19.18 (Cars) and 47.9
    (SOP), give 1/19.18 and 1/47.9.
    """

    def __init__(
        self,
        *,
        num_classes: int,
        dim: int,
        scale: Annotated[float, Gt(0)] = 20.0,
        gamma: Annotated[float, Gt(0)] = 0.1,
        tau: Annotated[float, Ge(0)] = 0.2,
        delta: Annotated[float, Interval(ge=0, le=2)] = 0.01,
        centers: Annotated[int, Ge(1)] = 10,
    ) -> None:
        super().__init__(num_classes, centers, dim)
        self.scale, self.gamma, self.tau, self.delta = scale, gamma, tau, delta

    def value(self, similarity: Tensor, labels_B: Tensor) -> Tensor:
        weight_BCK = (similarity / self.gamma).softmax(-1)
        relaxed_BC = (weight_BCK * similarity).sum(-1)
        margin_B1 = relaxed_BC.new_full((len(labels_B), 1), -self.delta)
        logits_BC = self.scale * relaxed_BC.scatter_add(1, own_class(labels_B), margin_B1)
        return mean_cross_entropy(logits_BC, labels_B)

    def penalty(self, unit: Tensor) -> Tensor:
        classes, centers, _ = unit.shape
        if self.tau == 0 or centers == 1:
            return unit.new_zeros(())
        # the gradient at distance 0 is 0 here; the authors add 1e-5 under the root instead
        twice_each_pair = pairwise_distance(unit, unit).sum()
        return twice_each_pair * (self.tau / (2 * classes * centers * (centers - 1)))
