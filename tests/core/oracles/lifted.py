"""The lifted structured loss by loops over positive pairs and the negatives of both ends."""

from __future__ import annotations

import math

EXAMPLES = [{"margin": 1.0}, {"margin": 0.3}]


def oracle(
    emb: list[list[float]],
    labels: list[int],
    refs: list[list[float]],
    ref_labels: list[int],
    same_set: bool,
    margin: float,
) -> float:
    squares = []
    for i, x in enumerate(emb):
        for j, y in enumerate(refs):
            if labels[i] != ref_labels[j] or (same_set and i == j):
                continue
            near = 0.0
            for k, z in enumerate(refs):
                if ref_labels[k] != labels[i]:
                    near += math.exp(margin - math.dist(x, z))
            for l, z in enumerate(emb):  # noqa: E741
                if labels[l] != ref_labels[j]:
                    near += math.exp(margin - math.dist(z, y))
            violation = math.log(near) + math.dist(x, y) if near > 0 else 0.0
            squares.append(max(0.0, violation) ** 2)
    return sum(squares) / (2 * len(squares)) if squares else 0.0
