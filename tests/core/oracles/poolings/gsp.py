"""Generalized sum pooling by loops; the scalar t by bisection, or by the printed passes."""

from __future__ import annotations

import math
from typing import Any

EXAMPLES: list[dict[str, Any]] = [
    {"prototypes": 5},
    {"prototypes": 3, "mu": 0.9, "epsilon": 0.5, "under": "max"},
    {"prototypes": 4, "mu": 1.0, "epsilon": 20.0},
    {"prototypes": 3, "mu": 0.5, "epsilon": 2.0, "under": "sum+max"},
    {"prototypes": 2, "mu": 0.6, "iterations": 3},
]


def oracle(
    features: list[list[list[list[float]]]],
    weights: dict[str, Any],
    prototypes: int = 64,
    mu: float = 0.3,
    epsilon: float = 5.0,
    iterations: int | None = None,
    under: str = "sum",
) -> list[list[float]]:
    pooled = []
    for channels in features:
        height, width = len(channels[0]), len(channels[0][0])
        local = [[channel[h][w] for channel in channels] for h in range(height) for w in range(width)]
        count = len(local)
        shares = [1 / count] * count
        if weights["started"] and mu < 1:
            near = [
                sum(math.exp(-epsilon * math.dist(lip(p), lip(f))) for p in weights["prototypes"])
                for f in local
            ]
            t = root(near, mu) if iterations is None else printed(near, mu, iterations)
            residual = [1 / count / (1 + t * a) for a in near]
            shares = [(1 / count - rho) / mu for rho in residual]
        weighted = [[p * x for x in f] for p, f in zip(shares, local, strict=True)]
        by_channel = list(zip(*weighted, strict=True))
        if under == "sum+max":
            largest = [max(f[d] for f in local) for d in range(len(channels))]
            pooled.append([sum(c) + top for c, top in zip(by_channel, largest, strict=True)])
        else:
            pooled.append([count * max(c) if under == "max" else sum(c) for c in by_channel])
    return pooled


def lip(point: list[float]) -> list[float]:
    length = math.hypot(*point)
    return [x / max(1.0, length) for x in point]


def root(near: list[float], mu: float) -> float:
    low, high = -200.0, 200.0
    for _ in range(200):
        middle = (low + high) / 2
        moved = [math.exp(middle) * a for a in near]
        if sum(m / (1 + m) for m in moved) / len(near) < mu:
            low = middle
        else:
            high = middle
    return math.exp(low)


def printed(near: list[float], mu: float, iterations: int) -> float:
    """The t that the last of so many residuals was computed with."""
    t = 1.0
    for _ in range(iterations - 1):
        t = mu / sum(a / len(near) / (1 + t * a) for a in near)
    return t
