"""The cross-batch zero-shot prediction loss (§5.2.3): attributes must predict classes not fitted on.

B samples, M attributes, C classes, D dimensions of a label embedding υ.
"""

from __future__ import annotations

from typing import Annotated

import torch
from annotated_types import Gt, Interval
from torch import Tensor, nn
from torch.nn.functional import cross_entropy


def zero_shot_loss(
    attributes_BM: Tensor,
    labels_B: Tensor,
    class_embeddings_CD: Tensor,
    ridge: float = 0.05,
    scale: float = 9.5,
    split: Tensor | None = None,
) -> Tensor:
    """−(1/B) Σ_i log softmax_{j ∈ C}(scale·⟨υ_j, A z_i⟩)_{y_i}, A fitted on the other part (eq. 5.2.4).

    The batch is split in two parts without a common class: by the mask `split` or, without one, every second
    class in the order of the labels. A is the ridge regression of a part's υ on its z (P3). Nothing is
    detached or normalised. 0 where one part is empty.
    """
    first_B = _every_second_class(labels_B) if split is None else split
    if split is not None:
        _check_split(split, labels_B)
    raised = torch.promote_types(attributes_BM.dtype, torch.float32)
    attributes_BM, class_embeddings_CD = attributes_BM.to(raised), class_embeddings_CD.to(raised)
    # Both dual solves Zᵀ(ZZᵀ + ridge·I)⁻¹Υ are one: with the pairs across the parts set to 0 the Gram
    # matrix is block-diagonal, and those pairs alone carry the prediction. Its condition is at most
    # 1 + B/ridge, because Σ z = 1 and z ≥ 0.
    gram_BB = attributes_BM @ attributes_BM.mT
    same_part_BB = first_B.unsqueeze(1) == first_B
    system_BB = torch.where(same_part_BB, gram_BB, 0) + ridge * torch.eye(
        len(gram_BB), dtype=gram_BB.dtype, device=gram_BB.device
    )
    # without the check of `solve`, which the host waits for: the system is positive definite
    coefficients_BD = torch.linalg.solve_ex(system_BB, class_embeddings_CD[labels_B]).result
    predicted_BD = torch.where(same_part_BB, 0, gram_BB) @ coefficients_BD
    # a scale is not in the text, the authors use 9.5; the mean over B is half the sum of the text's two
    # means (for equal parts); log-softmax leaves j = y_i out of eq. 5.2.4's inner sum, as it must be
    loss = cross_entropy(scale * (predicted_BD @ class_embeddings_CD.mT), labels_B)
    return torch.where(first_B.any() & ~first_B.all(), loss, 0)


def _every_second_class(labels_B: Tensor) -> Tensor:
    """Return (B,) whether the place of a label among the sorted labels of the batch is even."""
    sorted_B, order_B = labels_B.sort()
    place_B = sorted_B.diff(prepend=sorted_B[:1]).ne(0).cumsum(0)
    return torch.empty_like(order_B).scatter_(0, order_B, place_B) % 2 == 0


def _check_split(split: Tensor, labels_B: Tensor) -> None:
    if split.dtype != torch.bool or split.shape != labels_B.shape:
        raise ValueError(
            f"split must be a bool mask of shape {tuple(labels_B.shape)}; "
            f"got {split.dtype} of shape {tuple(split.shape)}"
        )
    shared = labels_B[split][torch.isin(labels_B[split], labels_B[~split])]
    if len(shared):
        raise ValueError(f"the parts of a split must not share a class; class {int(shared[0])} is in both")


class ZeroShot(nn.Module):
    """The zero-shot loss with learned label embeddings `class_embeddings`, υ of eq. 5.2.4, (C, D).

    `weight` is λ of eq. 5.2.5, (1 − λ) L_DML + λ L_ZS, applied by the objective. The text leaves size and
    start of υ open; the authors' code takes the size of the embedding (`dim`; without one, D = M) and draws
    from N(0, 2/C).
    """

    def __init__(
        self,
        num_classes: int,
        attributes: int,
        weight: Annotated[float, Interval(ge=0, le=1)] = 0.1,
        ridge: Annotated[float, Gt(0)] = 0.05,
        scale: Annotated[float, Gt(0)] = 9.5,
        dim: int | None = None,
    ) -> None:
        super().__init__()
        self.weight, self.ridge, self.scale = weight, ridge, scale
        size = attributes if dim is None else dim
        self.class_embeddings = nn.Parameter(
            torch.randn(num_classes, size, dtype=torch.float32) * (2 / num_classes) ** 0.5
        )

    def forward(self, attributes_BM: Tensor, labels_B: Tensor) -> Tensor:
        return zero_shot_loss(attributes_BM, labels_B, self.class_embeddings, self.ridge, self.scale)
