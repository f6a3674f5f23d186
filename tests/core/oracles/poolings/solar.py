"""SOLAR by loops over pairs of positions."""

from __future__ import annotations

import math

EXAMPLES: list[dict] = [{"reduction": 2, "power": 3.0}, {"reduction": 1, "power": 1.0}]
LARGEST = 1e15  # the attention's scores are quadratic


def oracle(features: list, weights: dict, reduction: int, power: float) -> list[list[float]]:
    return [pool(positions(image), weights) for image in features]


def pool(local: list[list[float]], weights: dict) -> list[float]:
    queries = [[max(0.0, x) for x in linear(f, weights, "query")] for f in local]
    keys = [[max(0.0, x) for x in linear(f, weights, "key")] for f in local]
    values = [linear(f, weights, "value") for f in local]
    enriched = []
    for feature, query in zip(local, queries, strict=True):
        scores = [math.exp(dot(query, key) / math.sqrt(len(query))) for key in keys]
        mixed = [
            sum(s * v[e] for s, v in zip(scores, values, strict=True)) / sum(scores)
            for e in range(len(query))
        ]
        enriched.append([x + y for x, y in zip(feature, linear(mixed, weights, "output"), strict=True)])
    p = max(0.1, weights["power"])
    return [
        (sum(max(1e-6, f[d]) ** p for f in enriched) / len(enriched)) ** (1 / p) for d in range(len(local[0]))
    ]


def linear(x: list[float], weights: dict, name: str) -> list[float]:
    rows, biases = weights[f"{name}.weight"], weights[f"{name}.bias"]
    return [dot(row, x) + bias for row, bias in zip(rows, biases, strict=True)]


def dot(x: list[float], y: list[float]) -> float:
    return sum(a * b for a, b in zip(x, y, strict=True))


def positions(image: list) -> list[list[float]]:
    rows, columns = range(len(image[0])), range(len(image[0][0]))
    return [[channel[i][j] for channel in image] for i in rows for j in columns]
