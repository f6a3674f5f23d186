"""How far a model is ahead of others on the same queries, with an interval over classes.

Both have an average precision for each query; the difference of their means is that of MAP@R. Its 95 %
interval is of other classes (check/comparison.py draws them anew), not of other trainings.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from dmltune.check.comparison import compare
from dmltune.core.retrieval import query_figures
from dmltune.data.images import ImageSet, Indices, Ints
from dmltune.train.inference import sides


@dataclass
class QueryScores:
    """The average precision of every query, NaN for one without a match, by what was measured."""

    precision_Q: dict[str, Tensor] = field(default_factory=dict)
    class_Q: Ints | None = None

    def add(self, name: str, emb_ND: Tensor, images: ImageSet, indices: Indices) -> None:
        queries, labels_Q, gallery, gallery_labels = sides(emb_ND, images, indices)
        figures = query_figures(queries, labels_Q, gallery, gallery_labels, ks=(1,))
        precision_Q = figures.average_precision_Q.double()
        self.precision_Q[name] = precision_Q.masked_fill(~figures.matched_Q, torch.nan)
        self.class_Q = labels_Q.numpy()

    def lead(self, ours: str, other: str) -> dict[str, float]:
        """Return difference, low and high of ours − other, as fractions."""
        assert self.class_Q is not None
        our_MQ, other_MQ = (self.precision_Q[name].numpy()[None] for name in (ours, other))
        found = compare(our_MQ, other_MQ, self.class_Q, np.zeros(1, dtype=np.int64))
        return {"difference": found.difference, "low": found.low, "high": found.high}
