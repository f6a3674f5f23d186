"""NetVLAD by loops over positions and centres."""

from __future__ import annotations

import math

EXAMPLES: list[dict] = [{"clusters": 2, "sharpness": 10.0}, {"clusters": 4, "sharpness": 1.5}]


def oracle(features: list, weights: dict, clusters: int, sharpness: float) -> list[list[float]]:
    return [pool([unit(f) for f in positions(image)], weights) for image in features]


def pool(local: list[list[float]], weights: dict) -> list[float]:
    centres = weights["prototypes"]
    residuals = [[0.0] * len(local[0]) for _ in centres]
    for feature in local:
        logits = [
            dot(row, feature) + bias
            for row, bias in zip(weights["assignment.weight"], weights["assignment.bias"], strict=True)
        ]
        total = sum(math.exp(z) for z in logits)
        for k, centre in enumerate(centres):
            share = math.exp(logits[k]) / total
            for d, (x, c) in enumerate(zip(feature, centre, strict=True)):
                residuals[k][d] += share * (x - c)
    return [x for residual in residuals for x in unit(residual)]


def unit(x: list[float]) -> list[float]:
    length = math.sqrt(dot(x, x))
    return [a / length for a in x]


def dot(x: list[float], y: list[float]) -> float:
    return sum(a * b for a, b in zip(x, y, strict=True))


def positions(image: list) -> list[list[float]]:
    rows, columns = range(len(image[0])), range(len(image[0][0]))
    return [[channel[i][j] for channel in image] for i in rows for j in columns]
