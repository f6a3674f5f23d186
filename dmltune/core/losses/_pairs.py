"""Shared parts of the losses of pairs: masks, distances and similarities, sums that stay finite.

B samples, R references (without references the batch itself), D dimensions, i a sample, j a reference.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from dmltune.core.geometry import any_left_out, pair_masks, pairwise_distance, taking_part

_LARGEST = 1e9  # entries beyond ±1e9 count as ±1e9 in an inner product, with gradient 0


class PairLoss(nn.Module, ABC):
    """A loss of the distances d_ij between samples and references and of their labels.

    `mean_over_samples`: the value is a sum over the samples, divided by the length of the batch. Then those
    that take no part (label below 0) add nothing to the sum, and are taken out of the divisor here.
    """

    skips_negative_labels: ClassVar[bool] = True
    mean_over_samples: ClassVar[bool] = False

    def forward(
        self,
        emb_BD: Tensor,
        labels_B: Tensor,
        refs_RD: Tensor | None = None,
        ref_labels_R: Tensor | None = None,
    ) -> Tensor:
        positive_BR, negative_BR = pair_masks(labels_B, ref_labels_R)
        measured_BR = self.measure(emb_BD, emb_BD if refs_RD is None else refs_RD)
        value = self.of_pairs(measured_BR, positive_BR, negative_BR)
        if self.mean_over_samples and any_left_out(labels_B):
            value = value * (len(labels_B) / taking_part(labels_B))
        return value

    def measure(self, x_BD: Tensor, y_RD: Tensor) -> Tensor:
        """Return what `of_pairs` needs of every pair."""
        return pairwise_distance(x_BD, y_RD)

    @abstractmethod
    def of_pairs(self, measured_BR: Tensor, positive_BR: Tensor, negative_BR: Tensor) -> Tensor:
        """Return the loss, a scalar; a pair neither positive nor negative is a sample with itself."""


class SimilarityLoss(PairLoss):
    """A loss of the inner products s_ij."""

    def measure(self, x_BD: Tensor, y_RD: Tensor) -> Tensor:
        x_BD = saturated(x_BD)
        return x_BD @ saturated(y_RD).to(x_BD.dtype).mT


def saturated(x_BD: Tensor) -> Tensor:
    """Return the points, half types raised, clamped where products and squares would leave float32."""
    return x_BD.to(torch.promote_types(x_BD.dtype, torch.float32)).clamp(-_LARGEST, _LARGEST)


def only(x_BR: Tensor, mask_BR: Tensor) -> Tensor:
    """Return exponents whose entries outside the mask have no effect.

    They become a number so low that its exp is 0 beside any other; not −∞, because a row of nothing else
    would have a gradient that is not a number.
    """
    return x_BR.masked_fill(~mask_BR, torch.finfo(x_BR.dtype).min / 4)


def log_one_plus_exp(x: Tensor) -> Tensor:
    """log(1 + exp x) to the last digit: torch's own threshold of 20 is meant for float32."""
    return functional.softplus(x, threshold=50)
