"""The ranked list loss by loops over anchors."""

from __future__ import annotations

import math

EXAMPLES = [
    {"margin": 0.4, "boundary": 1.2, "temperature": 10.0},
    {"margin": 0.9, "boundary": 0.7, "temperature": 0.0},
]


def oracle(
    emb: list[list[float]],
    labels: list[int],
    refs: list[list[float]],
    ref_labels: list[int],
    same_set: bool,
    margin: float,
    boundary: float,
    temperature: float,
) -> float:
    total = 0.0
    for i, x in enumerate(emb):
        too_far, too_near = [], []
        for j, y in enumerate(refs):
            distance = math.dist(x, y)
            if labels[i] == ref_labels[j]:
                if not (same_set and i == j) and distance > boundary - margin:
                    too_far.append(distance - (boundary - margin))
            elif distance < boundary:
                too_near.append(boundary - distance)
        weights = [math.exp(temperature * gap) for gap in too_near]
        total += sum(too_far) / max(1, len(too_far))
        if too_near:
            total += sum(w * gap for w, gap in zip(weights, too_near, strict=True)) / sum(weights)
    return total / len(emb)
