"""WELDON by sorting."""

from __future__ import annotations

EXAMPLES: list[dict] = [
    {"k_max": 3.0, "k_min": 3.0},
    {"k_max": 1.0, "k_min": 0.0},
    {"k_max": 0.3, "k_min": 0.01},
    {"k_max": 100.0, "k_min": 2.0},
]


def oracle(features: list, weights: dict, k_max: float, k_min: float) -> list[list[float]]:
    pooled = []
    for image in features:
        channels = [sorted(x for row in channel for x in row) for channel in image]
        pooled.append([mean(values[-number(k_max, values) :]) for values in channels])
        if k_min > 0:
            lowest = [mean(values[: number(k_min, values)]) for values in channels]
            pooled[-1] = [high + low for high, low in zip(pooled[-1], lowest, strict=True)]
    return pooled


def number(k: float, values: list[float]) -> int:
    return max(1, round(k * len(values))) if k < 1 else min(int(k), len(values))


def mean(values: list[float]) -> float:
    return sum(values) / len(values)
