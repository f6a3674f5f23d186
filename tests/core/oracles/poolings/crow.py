"""CroW by loops."""

from __future__ import annotations

import math

EXAMPLES: list[dict] = [{"norm": 2.0, "root": 2.0}, {"norm": 1.0, "root": 1.0}, {"norm": 3.0, "root": 1.5}]


def oracle(features: list, weights: dict, norm: float, root: float) -> list[list[float]]:
    return [
        pool([[x for row in channel for x in row] for channel in image], norm, root) for image in features
    ]


def pool(channels: list[list[float]], norm: float, root: float) -> list[float]:
    count = len(channels[0])
    response = [sum(max(0.0, values[n]) for values in channels) for n in range(count)]
    length = sum(r**norm for r in response) ** (1 / norm)
    # where nothing responds all positions weigh alike
    spatial = [(r / length if length else count ** (-1 / norm)) ** (1 / root) for r in response]
    share = [max(1, sum(x > 0 for x in values)) / count for values in channels]
    rarity = [math.log(sum(share) / q) for q in share]
    sums = [sum(s * x for s, x in zip(spatial, values, strict=True)) for values in channels]
    return [weight * total / count for weight, total in zip(rarity, sums, strict=True)]
