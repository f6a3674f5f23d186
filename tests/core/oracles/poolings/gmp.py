"""Max pooling by loops."""

from __future__ import annotations

EXAMPLES: list[dict] = [{}]


def oracle(features: list, weights: dict) -> list[list[float]]:
    return [[max(x for row in channel for x in row) for channel in image] for image in features]
