"""Optimal-transport aggregation by Sinkhorn's scalings of the kernel itself."""

from __future__ import annotations

import math

EXAMPLES: list[dict] = [
    {"clusters": 2, "epsilon": 0.5, "iterations": 10},
    {"clusters": 4, "epsilon": 0.2, "iterations": 3},
]


def oracle(
    features: list, weights: dict, clusters: int, epsilon: float, iterations: int
) -> list[list[float]]:
    prototypes = [unit(w) for w in weights["prototypes"]]
    return [pool(positions(image), prototypes, epsilon, iterations) for image in features]


def pool(local: list[list[float]], prototypes: list, epsilon: float, iterations: int) -> list[float]:
    kernel = [[math.exp(dot(unit(f), w) / epsilon) for w in prototypes] for f in local]
    count, clusters = len(local), len(prototypes)
    v = [1.0] * clusters
    u = [0.0] * count
    for _ in range(iterations):
        u = [1 / count / dot(row, v) for row in kernel]
        v = [1 / clusters / sum(u[n] * kernel[n][k] for n in range(count)) for k in range(clusters)]
    return [
        math.sqrt(clusters) * sum(u[n] * kernel[n][k] * v[k] * local[n][d] for n in range(count))
        for k in range(clusters)
        for d in range(len(local[0]))
    ]


def unit(x: list[float]) -> list[float]:
    length = math.sqrt(dot(x, x))
    return [a / length for a in x]


def dot(x: list[float], y: list[float]) -> float:
    return sum(a * b for a, b in zip(x, y, strict=True))


def positions(image: list) -> list[list[float]]:
    rows, columns = range(len(image[0])), range(len(image[0][0]))
    return [[channel[i][j] for channel in image] for i in rows for j in columns]
