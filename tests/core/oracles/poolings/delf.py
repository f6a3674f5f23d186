"""DeLF by loops over positions and hidden units."""

from __future__ import annotations

import math

EXAMPLES: list[dict] = [{"hidden": 3}, {"hidden": 7}]
STARTS_AS_AVERAGE = True
LARGEST = 1e15  # attention × feature is quadratic


def oracle(features: list, weights: dict, hidden: int) -> list[list[float]]:
    return [pool(positions(image), weights) for image in features]


def pool(local: list[list[float]], weights: dict) -> list[float]:
    pooled = [0.0] * len(local[0])
    for feature in local:
        units = [
            max(0.0, dot(row, feature) + bias)
            for row, bias in zip(weights["hidden.weight"], weights["hidden.bias"], strict=True)
        ]
        attention = math.log1p(math.exp(dot(weights["score.weight"][0], units) + weights["score.bias"][0]))
        pooled = [total + attention * x / len(local) for total, x in zip(pooled, feature, strict=True)]
    return pooled


def dot(x: list[float], y: list[float]) -> float:
    return sum(a * b for a, b in zip(x, y, strict=True))


def positions(image: list) -> list[list[float]]:
    rows, columns = range(len(image[0])), range(len(image[0][0]))
    return [[channel[i][j] for channel in image] for i in rows for j in columns]
