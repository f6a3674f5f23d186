"""No transform."""

from __future__ import annotations

from torch import Tensor

from dmltune.core.transforms import Transform


class Identity(Transform):
    """Generates nothing; no state."""

    def generate(self, raw_BD: Tensor, emb_BD: Tensor, labels_B: Tensor) -> tuple[Tensor, Tensor]:
        return emb_BD[:0], labels_B[:0]
