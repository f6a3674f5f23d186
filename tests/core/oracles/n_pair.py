"""The N-pair loss by loops over positive pairs."""

from __future__ import annotations

import math

EXAMPLES = [{"l2": 0.0}, {"l2": 0.02}]


def oracle(
    emb: list[list[float]],
    labels: list[int],
    refs: list[list[float]],
    ref_labels: list[int],
    same_set: bool,
    l2: float,
) -> float:
    terms = []
    for i, x in enumerate(emb):
        for j, y in enumerate(refs):
            if labels[i] != ref_labels[j] or (same_set and i == j):
                continue
            rivals = [z for z, label in zip(refs, ref_labels, strict=True) if label != labels[i]]
            terms.append(math.log(1 + sum(math.exp(inner(x, z) - inner(x, y)) for z in rivals)))
    norms = sum(inner(x, x) for x in emb) / len(emb)
    return (sum(terms) / len(terms) if terms else 0.0) + l2 * norms


def inner(x: list[float], y: list[float]) -> float:
    return sum(a * b for a, b in zip(x, y, strict=True))
