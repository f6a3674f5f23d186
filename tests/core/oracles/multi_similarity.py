"""The multi-similarity loss by loops over anchors."""

from __future__ import annotations

import math

EXAMPLES = [
    {"alpha": 2.0, "beta": 40.0, "base": 0.5, "mining_margin": None},
    {"alpha": 14.35, "beta": 75.83, "base": 0.66, "mining_margin": None},
    {"alpha": 2.0, "beta": 10.0, "base": 0.2, "mining_margin": 0.1},
]


def oracle(
    emb: list[list[float]],
    labels: list[int],
    refs: list[list[float]],
    ref_labels: list[int],
    same_set: bool,
    alpha: float,
    beta: float,
    base: float,
    mining_margin: float | None,
) -> float:
    total = 0.0
    for i, x in enumerate(emb):
        positive, negative = [], []
        for j, y in enumerate(refs):
            if same_set and i == j:
                continue
            similarity = sum(a * b for a, b in zip(x, y, strict=True))
            (positive if labels[i] == ref_labels[j] else negative).append(similarity)
        if mining_margin is not None:
            positive, negative = (
                [s for s in positive if negative and s - mining_margin < max(negative)],
                [s for s in negative if positive and s + mining_margin > min(positive)],
            )
        total += math.log(1 + sum(math.exp(-alpha * (s - base)) for s in positive)) / alpha
        total += math.log(1 + sum(math.exp(beta * (s - base)) for s in negative)) / beta
    return total / len(emb)
