"""Proxy-Anchor by loops over proxies and samples."""

from __future__ import annotations

import math
from typing import Any

EXAMPLES = [{"delta": 0.1, "alpha": 32.0}, {"delta": 0.3, "alpha": 5.0}]


def oracle(
    emb: list[list[float]], labels: list[int], weights: dict[str, Any], delta: float, alpha: float
) -> float:
    proxies = [unit(proxy) for proxy in weights["proxies"]]
    pull = push = 0.0
    for c, proxy in enumerate(proxies):
        own, other = 1.0, 1.0
        for x, label in zip(emb, labels, strict=True):
            similarity = sum(a * b for a, b in zip(x, proxy, strict=True))
            if label == c:
                own += math.exp(-alpha * (similarity - delta))
            else:
                other += math.exp(alpha * (similarity + delta))
        pull += math.log(own)
        push += math.log(other)
    return pull / len(set(labels)) + push / len(proxies)


def unit(vector: list[float]) -> list[float]:
    norm = math.hypot(*vector)
    return [a / norm for a in vector]
