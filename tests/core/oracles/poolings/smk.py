"""The selective match kernel's descriptor by loops over positions and their neighbours."""

from __future__ import annotations

import math

EXAMPLES: list[dict] = [{"kernel_size": 3}, {"kernel_size": 1}]
POSITIONS_MATTER = True


def oracle(features: list, weights: dict, kernel_size: int) -> list[list[float]]:
    return [pool(image, kernel_size // 2) for image in features]


def pool(image: list, reach: int) -> list[float]:
    rows, columns = len(image[0]), len(image[0][0])
    pooled, total = [0.0] * len(image), 0.0
    for i in range(rows):
        for j in range(columns):
            norm = math.sqrt(sum(channel[i][j] ** 2 for channel in image))
            total += norm
            near = [
                (y, x)
                for y in range(max(0, i - reach), min(rows, i + reach + 1))
                for x in range(max(0, j - reach), min(columns, j + reach + 1))
            ]
            for d, channel in enumerate(image):
                pooled[d] += norm * sum(channel[y][x] for y, x in near) / len(near)
    return [value / total for value in pooled]
