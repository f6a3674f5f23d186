"""C2 by loops over pairs."""

from __future__ import annotations

import math

EXAMPLES = [{"pos_margin": 0.0, "neg_margin": 0.3841}, {"pos_margin": 0.2652, "neg_margin": 1.2}]


def oracle(
    emb: list[list[float]],
    labels: list[int],
    refs: list[list[float]],
    ref_labels: list[int],
    same_set: bool,
    pos_margin: float,
    neg_margin: float,
) -> float:
    positive, negative = [], []
    for i, x in enumerate(emb):
        for j, y in enumerate(refs):
            if same_set and i == j:
                continue
            if labels[i] == ref_labels[j]:
                positive.append(max(0.0, math.dist(x, y) - pos_margin))
            else:
                negative.append(max(0.0, neg_margin - math.dist(x, y)))
    return mean_of_non_zero(positive) + mean_of_non_zero(negative)


def mean_of_non_zero(values: list[float]) -> float:
    kept = [value for value in values if value > 0]
    return sum(kept) / len(kept) if kept else 0.0
