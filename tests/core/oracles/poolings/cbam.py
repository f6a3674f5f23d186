"""CBAM by loops over channels, positions and the taps of the convolution."""

from __future__ import annotations

import math

EXAMPLES: list[dict] = [{"reduction": 2, "kernel_size": 7}, {"reduction": 16, "kernel_size": 3}]
POSITIONS_MATTER = True
STARTS_AS_AVERAGE = True


def oracle(features: list, weights: dict, reduction: int, kernel_size: int) -> list[list[float]]:
    return [pool(image, weights) for image in features]


def pool(image: list, weights: dict) -> list[float]:
    flat = [[x for row in channel for x in row] for channel in image]
    logits = [0.0] * len(image)
    for summary in ([sum(values) / len(values) for values in flat], [max(values) for values in flat]):
        hidden = [max(0.0, dot(row, summary)) for row in weights["squeeze.weight"]]
        logits = [
            logit + dot(row, hidden) for logit, row in zip(logits, weights["excite.weight"], strict=True)
        ]
    masked = [[[sigmoid(z) * x for x in row] for row in ch] for z, ch in zip(logits, image, strict=True)]
    rows, columns = len(image[0]), len(image[0][0])
    average = [[sum(ch[i][j] for ch in masked) / len(masked) for j in range(columns)] for i in range(rows)]
    largest = [[max(ch[i][j] for ch in masked) for j in range(columns)] for i in range(rows)]
    filters = weights["spatial.weight"][0]
    half = len(filters[0]) // 2
    pooled = [0.0] * len(image)
    for i in range(rows):
        for j in range(columns):
            logit = 0.0
            for plane, taps in zip((average, largest), filters, strict=True):
                for a, row in enumerate(taps):
                    for b, tap in enumerate(row):
                        y, x = i + a - half, j + b - half
                        if 0 <= y < rows and 0 <= x < columns:
                            logit += tap * plane[y][x]
            for d, channel in enumerate(masked):
                pooled[d] += sigmoid(logit) * channel[i][j] / (rows * columns)
    return pooled


def dot(x: list[float], y: list[float]) -> float:
    return sum(a * b for a, b in zip(x, y, strict=True))


def sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-z))
