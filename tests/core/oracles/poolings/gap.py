"""Average pooling by loops."""

from __future__ import annotations

EXAMPLES: list[dict] = [{}]
STARTS_AS_AVERAGE = True


def oracle(features: list, weights: dict) -> list[list[float]]:
    return [[mean([x for row in channel for x in row]) for channel in image] for image in features]


def mean(values: list[float]) -> float:
    return sum(values) / len(values)
