"""The part of the variation within classes that Feature Transfer Learning transfers.

n samples, D dimensions, K eigenvectors.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dmltune.core.geometry import l2_normalise

_MOMENTUM = 0.99  # share of the covariance that stays at an update
_EVERY = 10  # updates between two eigendecompositions, which cost D³; the subspace moves slowly


class Variation(nn.Module):
    """A running covariance of σ = x − μ of all classes, and the projection on its leading subspace.

    The leading eigenvectors hold `energy` of the trace. Not in the text, which says "95 % of the energy"
    only: the covariance is a moving average in which every batch has the trace 1 (only ratios of eigenvalues
    matter, and the features' size drifts in training).
    """

    covariance: Tensor
    projector: Tensor
    updates: Tensor

    def __init__(self, dim: int, energy: float) -> None:
        super().__init__()
        self.energy = energy
        self.register_buffer("covariance", torch.zeros(dim, dim, dtype=torch.float32))
        self.register_buffer("projector", torch.zeros(dim, dim, dtype=torch.float32))
        self.register_buffer("updates", torch.tensor(0))

    def ready(self) -> bool:
        return bool(self.projector.any())

    def project(self, sigma_nD: Tensor) -> Tensor:
        """Q Qᵀ σ."""
        return sigma_nD @ self.projector.to(sigma_nD.dtype)

    @torch.no_grad()
    def update_(self, sigma_nD: Tensor) -> None:
        """Add σ to the covariance, unless it is empty, zero or not finite."""
        if not (len(sigma_nD) and 0 < float(sigma_nD.abs().max()) < float("inf")):
            return
        unit_nD = l2_normalise(sigma_nD.to(self.covariance.dtype).flatten()).view_as(sigma_nD)
        self.covariance.lerp_(unit_nD.mT @ unit_nD, 1 - _MOMENTUM)
        if int(self.updates) % _EVERY == 0:
            # a new tensor: the backward of points that were generated before still needs the old one
            self.projector = leading_projector(self.covariance, self.energy)
        self.updates.add_(1)


def leading_projector(covariance_DD: Tensor, energy: float) -> Tensor:
    """Return Q Qᵀ of the fewest leading eigenvectors that hold `energy` of the trace."""
    values_D, vectors_DD = torch.linalg.eigh(covariance_DD)
    held_D = values_D.clamp(min=0).flip(0).cumsum(0)
    count = int((held_D < energy * held_D[-1]).sum()) + 1
    leading_DK = vectors_DD[:, -count:]
    projector_DD: Tensor = leading_DK @ leading_DK.mT
    return projector_DD
