"""Metric cross-entropy by loops over samples and classes, from the formula as it is printed."""

from __future__ import annotations

import math
from typing import Any

EXAMPLES = [
    {"a": 1.0, "b": 1.0, "p": 0.75, "temperature": 0.3, "metric": "strict"},
    {"a": 0.5, "b": 1.2, "p": 0.4, "temperature": 0.2, "metric": "strict"},
    {"a": 0.0, "b": 1.0, "p": 1.0, "temperature": 0.5, "metric": "weak"},
    {"a": 0.0, "b": 1.0, "p": 0.6, "temperature": 0.5, "metric": "weak"},
    {"a": 1.0, "b": 1.0, "p": 0.5, "temperature": 0.3, "metric": "strict", "outer": "power", "power": 0.4},
    {"a": 0.5, "b": 1.2, "p": 0.4, "temperature": 0.2, "metric": "strict", "outer": "log", "rate": 2.5},
]


def oracle(
    emb: list[list[float]],
    labels: list[int],
    weights: dict[str, Any],
    a: float,
    b: float,
    p: float,
    temperature: float,
    metric: str,
    outer: str = "identity",
    power: float = 0.5,
    rate: float = 1.0,
) -> float:
    proxies = [unit(proxy) for proxy in weights["proxies"]]
    total = 0.0
    for point, label in zip(emb, labels, strict=True):
        scores = [
            math.exp(sum(u * v for u, v in zip(point, proxy, strict=True)) / temperature) for proxy in proxies
        ]
        apart = 0.0
        for c, score in enumerate(scores):
            x, y = score / sum(scores), float(c == label)
            apart += -math.log(1 + a - b * abs(x - y) ** p) + math.log(1 + a)
        total += {"identity": apart, "power": apart**power, "log": math.log(1 + rate * apart) / rate}[outer]
    return total / len(emb)


def unit(vector: list[float]) -> list[float]:
    norm = math.hypot(*vector)
    return [a / norm for a in vector]
