"""The class centres of seed 001, and the draw of target classes.

B samples, U classes of a batch, C classes, D dimensions.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Centres(nn.Module):
    """One running centre a class, zero before the first sample of the class."""

    values: Tensor

    def __init__(self, num_classes: int, dim: int) -> None:
        super().__init__()
        self.register_buffer("values", torch.zeros(num_classes, dim, dtype=torch.float32))

    @torch.no_grad()
    def update_(self, x_BD: Tensor, labels_B: Tensor) -> None:
        """μ_j ← (μ_j + Σ_{y_i = j} x_i) / (1 + n_j): eq. 9 subtracted, not added.

        The old centre counts as one sample: a centre depends on the order of the batches, not on the order
        within one. A product with the class indicators, because scattered sums differ from rank to rank on a
        GPU.
        """
        x_BD = x_BD.to(self.values.dtype)
        classes_U, place_B = torch.unique(labels_B, return_inverse=True)
        is_UB = (place_B == torch.arange(len(classes_U), device=x_BD.device).unsqueeze(1)).to(x_BD.dtype)
        sums_UD = self.values[classes_U] + is_UB @ x_BD
        self.values[classes_U] = sums_UD / (1 + is_UB.sum(1, keepdim=True))

    @torch.no_grad()
    def pick_(self, x_BD: Tensor, labels_B: Tensor, generator: torch.Generator) -> None:
        """Set the centre of each class of the batch to a random sample ("Pick" of table 6)."""
        draw_B = torch.randperm(len(labels_B), generator=generator).to(labels_B.device)
        same_BB = labels_B.unsqueeze(1) == labels_B
        picked_B = ~(same_BB & (draw_B > draw_B.unsqueeze(1))).any(1)
        self.values[labels_B[picked_B]] = x_BD[picked_B].to(self.values.dtype)

    def known(self) -> Tensor:
        """Return (C,) whether a class has a centre."""
        return (self.values.amax(1) != 0) | (self.values.amin(1) != 0)  # several times as fast as any()


def other_classes(allowed_C: Tensor, own_B: Tensor, generator: torch.Generator) -> Tensor:
    """Draw an allowed class for each sample uniformly, never its own; there must be one, (B,)."""
    if not len(own_B):
        return own_B
    classes_K = allowed_C.nonzero().squeeze(1)
    inside_B = allowed_C[own_B]
    others_B = len(classes_K) - inside_B.long()
    # float64 is uniform to 2⁻⁵³, so the floor is as good as a draw of a whole number below `others`
    share_B = torch.rand(len(own_B), generator=generator, dtype=torch.float64).to(own_B.device)
    index_B = (share_B * others_B).long()
    place_B = torch.searchsorted(classes_K, own_B)
    return classes_K[index_B + (inside_B & (index_B >= place_B))]
