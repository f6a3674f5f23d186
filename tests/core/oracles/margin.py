"""The margin loss by loops over pairs."""

from __future__ import annotations

import math

EXAMPLES = [
    {"alpha": 0.2, "beta": 1.2, "learn_beta": True},
    {"alpha": 0.4, "beta": 0.9, "learn_beta": False},
    {"alpha": 0.0, "beta": 0.7, "learn_beta": True},
]


def oracle(
    emb: list[list[float]],
    labels: list[int],
    refs: list[list[float]],
    ref_labels: list[int],
    same_set: bool,
    alpha: float,
    beta: float,
    learn_beta: bool,
) -> float:
    kept = []
    for i, x in enumerate(emb):
        for j, y in enumerate(refs):
            if same_set and i == j:
                continue
            sign = 1 if labels[i] == ref_labels[j] else -1
            value = alpha + sign * (math.dist(x, y) - beta)
            if value > 0:
                kept.append(value)
    return sum(kept) / len(kept) if kept else 0.0
