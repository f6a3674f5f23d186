"""SoftTriple by loops over samples, classes and proxies of a class."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

EXAMPLES = [
    {"scale": 20.0, "gamma": 0.1, "tau": 0.2, "delta": 0.01, "centers": 3},
    {"scale": 17.69, "gamma": 0.0521, "tau": 0.0669, "delta": 0.3588, "centers": 2},
    {"scale": 5.0, "gamma": 1.0, "tau": 0.5, "delta": 0.0, "centers": 1},
]


def oracle(
    emb: list[list[float]],
    labels: list[int],
    weights: dict[str, Any],
    scale: float,
    gamma: float,
    tau: float,
    delta: float,
    centers: int,
) -> float:
    classes = [[unit(proxy) for proxy in own] for own in weights["proxies"]]
    total = 0.0
    for x, label in zip(emb, labels, strict=True):
        logits = []
        for c, own in enumerate(classes):
            near = [sum(a * b for a, b in zip(x, proxy, strict=True)) for proxy in own]
            share = [math.exp(s / gamma) for s in near]
            relaxed = sum(w * s for w, s in zip(share, near, strict=True)) / sum(share)
            logits.append(scale * (relaxed - (delta if c == label else 0.0)))
        total -= math.log(math.exp(logits[label]) / sum(map(math.exp, logits)))
    spread = sum(math.dist(p, q) for own in classes for p, q in combinations(own, 2))
    pairs = len(classes) * centers * (centers - 1)
    return total / len(emb) + (tau * spread / pairs if pairs else 0.0)


def unit(vector: list[float]) -> list[float]:
    norm = math.hypot(*vector)
    return [a / norm for a in vector]
