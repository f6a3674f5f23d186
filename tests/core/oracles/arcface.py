"""ArcFace by loops over samples and classes, through the angle itself."""

from __future__ import annotations

import math
from typing import Any

EXAMPLES = [{"scale": 64.0, "margin": 0.5}, {"scale": 4.0, "margin": 1.5}]


def oracle(
    emb: list[list[float]], labels: list[int], weights: dict[str, Any], scale: float, margin: float
) -> float:
    proxies = [unit(proxy) for proxy in weights["proxies"]]
    total = 0.0
    for x, label in zip(emb, labels, strict=True):
        cosines = [sum(a * b for a, b in zip(x, proxy, strict=True)) for proxy in proxies]
        angle = math.acos(cosines[label])
        if angle < math.pi - margin:
            cosines[label] = math.cos(angle + margin)
        else:
            cosines[label] -= margin * math.sin(margin)
        total -= math.log(math.exp(scale * cosines[label]) / sum(math.exp(scale * s) for s in cosines))
    return total / len(emb)


def unit(vector: list[float]) -> list[float]:
    norm = math.hypot(*vector)
    return [a / norm for a in vector]
