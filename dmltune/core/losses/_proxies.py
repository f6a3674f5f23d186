"""Shared parts of losses with proxies of their own: unit proxies and cross-entropy over classes.

B samples, C classes, P proxies, D dimensions; `...` is nothing or the proxies of a class. s_ic = ⟨x_i, p_c⟩
with x as it comes and p l2-normalised: the cosine for a unit x, less for one that lip left shorter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dmltune.core.geometry import at_least_float32, l2_normalise, taking_part
from dmltune.core.losses import refuse_references


class ProxyLoss(nn.Module, ABC):
    """A loss of the similarities to `proxies` (C, ..., D), random unit vectors at the start."""

    takes_references: ClassVar[bool] = False
    skips_negative_labels: ClassVar[bool] = True

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.proxies = nn.Parameter(l2_normalise(torch.randn(shape, dtype=torch.float32)))

    def forward(
        self,
        emb_BD: Tensor,
        labels_B: Tensor,
        refs_RD: Tensor | None = None,
        ref_labels_R: Tensor | None = None,
    ) -> Tensor:
        refuse_references(self, refs_RD)
        emb_BD = at_least_float32(emb_BD)
        unit = l2_normalise(self.proxies)
        similarity_BP = emb_BD @ unit.flatten(0, -2).to(emb_BD.dtype).mT
        value = self.value(similarity_BP.view(len(emb_BD), *unit.shape[:-1]), labels_B)
        return value + self.penalty(unit).to(value.dtype)

    @abstractmethod
    def value(self, similarity: Tensor, labels_B: Tensor) -> Tensor:
        """Return the loss of s (B, C, ...), a scalar, over the samples with a label of at least 0."""

    def penalty(self, unit: Tensor) -> Tensor:
        """Return the penalty of the unit proxies (C, ..., D), a scalar."""
        return unit.new_zeros(())


def mean_cross_entropy(logits_BC: Tensor, labels_B: Tensor) -> Tensor:
    """−log softmax at the label, mean over the samples that take part; 0 without one."""
    own_B = labels_B.clamp(min=-1)
    return F.cross_entropy(logits_BC, own_B, reduction="sum", ignore_index=-1) / taking_part(labels_B)


def own_class(labels_B: Tensor) -> Tensor:
    """Return the columns of the labels, (B, 1); any column for a sample that takes no part."""
    return labels_B.clamp(min=0).unsqueeze(1)
