"""The global descriptor of the trainable selective match kernel.

B images, D channels, N positions.
"""

from __future__ import annotations

from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor
from torch.nn import functional as F

from dmltune.core.geometry import at_least_float32
from dmltune.core.poolings import Pooling, local_features, magnitude, padding_of, weighted_sum


class Smk(Pooling):
    """Σ_n ‖f_n‖ f̄_n / Σ_n ‖f_n‖ (Tolias, Jenicek and Chum 2020), f̄ the map after local averaging.

    Averages are 3×3 and of the positions inside the map only. The inner products of this descriptor are the
    kernel's sum over all pairs of features, and the kernel is learned through it; selection and binary codes
    come after training and are left out, as in the thesis' comparison. The paper divides by the largest norm:
    same direction.
    """

    def __init__(self, *, kernel_size: Annotated[int, Ge(1)] = 3) -> None:
        super().__init__()
        self.kernel_size, self.padding = kernel_size, padding_of(kernel_size)

    def forward(self, features_BDHW: Tensor) -> Tensor:
        features_BDHW = at_least_float32(features_BDHW)
        local_BND = local_features(features_BDHW)
        norm_BN = torch.linalg.vector_norm(local_BND / magnitude(local_BND, 1, 2), dim=-1)
        total_B1 = norm_BN.sum(1, keepdim=True)
        nothing_B1 = total_B1 == 0
        share_BN = norm_BN / torch.where(nothing_B1, 1, total_B1)
        share_BN = torch.where(nothing_B1, 1 / norm_BN.shape[1], share_BN)
        smooth_BDHW = F.avg_pool2d(
            features_BDHW, self.kernel_size, stride=1, padding=self.padding, count_include_pad=False
        )
        return weighted_sum(share_BN, smooth_BDHW.flatten(2).mT)
