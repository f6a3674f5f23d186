"""Generalised max pooling: frequent and rare features count alike.

B images, D channels, N positions.
"""

from __future__ import annotations

from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor

from dmltune.core.poolings import Pooling, local_features, magnitude, weighted_sum


class Gemax(Pooling):
    """Σ_n α_n f_n with (F Fᵀ / s + ridge·I) α = 1 (Murray and Perronnin 2014, dual form), s = mean ‖f_n‖².

    For a small ridge every feature is equally similar to the result, ⟨f_n, pooled⟩ = s; for a large one it is
    the sum. In the paper descriptors have unit norm, so s = 1; here s makes ridge and result independent of
    the size of the features.
    """

    def __init__(self, *, ridge: Annotated[float, Ge(1e-4)] = 1.0) -> None:
        super().__init__()
        self.ridge = ridge

    def forward(self, features_BDHW: Tensor) -> Tensor:
        local_BND = local_features(features_BDHW)
        scaled_BND = local_BND / magnitude(local_BND, 1, 2)
        square_B11 = scaled_BND.square().sum(-1, keepdim=True).mean(1, keepdim=True)
        kernel_BNN = scaled_BND @ scaled_BND.mT / torch.where(square_B11 == 0, 1, square_B11)
        system_BNN = kernel_BNN + self.ridge * torch.eye(
            local_BND.shape[1], dtype=kernel_BNN.dtype, device=kernel_BNN.device
        )
        ones_BN1 = system_BNN.new_ones((*system_BNN.shape[:2], 1))
        # without the check of `solve`: the system is positive definite, and what is not finite stays visible
        weights_BN1: Tensor = torch.linalg.solve_ex(system_BNN, ones_BN1).result
        return weighted_sum(weights_BN1.squeeze(-1), local_BND)
