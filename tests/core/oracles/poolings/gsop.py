"""GSoP by loops over pairs of reduced channels."""

from __future__ import annotations

import math

EXAMPLES: list[dict] = [{"reduced": 3}, {"reduced": 5}]
STARTS_AS_AVERAGE = True
LARGEST = 1e15  # the covariance is quadratic


def oracle(features: list, weights: dict, reduced: int) -> list[list[float]]:
    return [pool(positions(image), weights, reduced) for image in features]


def pool(local: list[list[float]], weights: dict, reduced: int) -> list[float]:
    small = [
        [
            max(0.0, dot(row, feature) + bias)
            for row, bias in zip(weights["reduce.weight"], weights["reduce.bias"], strict=True)
        ]
        for feature in local
    ]
    mean = [sum(f[e] for f in small) / len(small) for e in range(reduced)]
    rows = []
    for i in range(reduced):
        covariance = [
            sum((f[i] - mean[i]) * (f[j] - mean[j]) for f in small) / len(small) for j in range(reduced)
        ]
        for k, bias in enumerate(weights["row_bias"][i]):
            rows.append(dot(covariance, [taps[k] for taps in weights["row_filters"][i]]) + bias)
    pooled = []
    for d, (row, bias) in enumerate(zip(weights["excite.weight"], weights["excite.bias"], strict=True)):
        average = sum(feature[d] for feature in local) / len(local)
        pooled.append(average / (1 + math.exp(-dot(row, rows) - bias)))
    return pooled


def dot(x: list[float], y: list[float]) -> float:
    return sum(a * b for a, b in zip(x, y, strict=True))


def positions(image: list) -> list[list[float]]:
    rows, columns = range(len(image[0])), range(len(image[0][0]))
    return [[channel[i][j] for channel in image] for i in rows for j in columns]
