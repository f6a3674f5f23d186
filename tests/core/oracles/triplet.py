"""The triplet loss by loops over triplets."""

from __future__ import annotations

import math

EXAMPLES = [{"margin": 0.0961}, {"margin": 0.0}, {"margin": 1.3}]


def oracle(
    emb: list[list[float]],
    labels: list[int],
    refs: list[list[float]],
    ref_labels: list[int],
    same_set: bool,
    margin: float,
) -> float:
    kept = []
    for a, x in enumerate(emb):
        for p, y in enumerate(refs):
            if labels[a] != ref_labels[p] or (same_set and a == p):
                continue
            for n, z in enumerate(refs):
                if labels[a] != ref_labels[n]:
                    value = math.dist(x, y) - math.dist(x, z) + margin
                    if value > 0:
                        kept.append(value)
    return math.fsum(kept) / len(kept) if kept else 0.0
