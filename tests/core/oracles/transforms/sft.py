"""Seed 001 by loops: centres from the history of batches, the rotation as an explicit matrix."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

EXAMPLES: list[dict[str, Any]] = [
    {},
    {"form": "degenerate"},
    {"form": "ftl"},
    {"form": "ftl", "energy": 0.6},
    {"scheme": "unbalanced"},
    {"form": "degenerate", "scheme": "unbalanced", "tail_below": 4},
    {"centres": "random"},
    {"centres": "pick"},
]

Point = list[float]
Batch = tuple[list[Point], list[Point], list[int]]


def oracle(
    batches: list[Batch],
    chosen: list[int],
    state: dict[str, Any],
    class_counts: list[int],
    form: str = "rotate",
    scheme: str = "balanced",
    centres: str = "running",
    tail_below: int = 15,
    energy: float = 0.95,
) -> list[Point]:
    """The points generated from the last of the batches, whose labels were drawn to be `chosen`."""
    raw, emb, labels = batches[-1]
    points = emb if form == "rotate" else raw
    history = [(e if form == "rotate" else r, y) for r, e, y in batches[:-1]]
    if centres == "running":
        values = centres_by_loops(history, len(class_counts), len(points[0]))
    else:
        values = state["centres.values"]
    projector = projector_by_loops(history, len(class_counts), energy) if form == "ftl" else None
    sources = [i for i, label in enumerate(labels) if any(values[label])]
    if scheme == "unbalanced":
        sources = [i for i in sources if class_counts[labels[i]] >= tail_below]
    targets = [c for c, value in enumerate(values) if any(value)]
    if scheme == "unbalanced":
        targets = [c for c in targets if class_counts[c] < tail_below]
    sources = [i for i in sources if set(targets) - {labels[i]}]
    if form == "ftl" and projector is None:
        sources = []
    assert len(sources) == len(chosen)
    assert set(chosen) <= set(targets)
    made = []
    for i, target in zip(sources, chosen, strict=True):
        assert target != labels[i]
        x, source_centre, target_centre = points[i], values[labels[i]], values[target]
        if form == "rotate":
            made.append(apply(rotation(source_centre, target_centre), x))
            continue
        sigma = [a - b for a, b in zip(x, source_centre, strict=True)]
        if projector is not None:
            sigma = apply(projector, sigma)
        moved = [a + b for a, b in zip(target_centre, sigma, strict=True)]
        made.append([a / math.hypot(*moved) for a in moved])
    return made


def centres_by_loops(history: list[tuple[list[Point], list[int]]], classes: int, dim: int) -> list[Point]:
    """μ_j ← μ_j − Δμ_j, Δμ_j of eq. 9."""
    values = [[0.0] * dim for _ in range(classes)]
    for points, labels in history:
        for j in range(classes):
            members = [x for x, label in zip(points, labels, strict=True) if label == j]
            for d in range(dim):
                step = sum(values[j][d] - x[d] for x in members) / (1 + len(members))
                values[j][d] -= step
    return values


def rotation(source: Point, target: Point) -> list[Point]:
    """A of eq. 4 as a matrix."""
    m1 = [a / math.hypot(*source) for a in source]
    m2 = [a / math.hypot(*target) for a in target]
    cosine = sum(a * b for a, b in zip(m1, m2, strict=True))
    n1 = m1
    rest = [b - cosine * a for a, b in zip(m1, m2, strict=True)]
    n2 = [a / math.hypot(*rest) for a in rest]
    sine = math.hypot(*rest)
    return [
        [
            (i == j) + (n2[i] * n1[j] - n1[i] * n2[j]) * sine + (n1[i] * n1[j] + n2[i] * n2[j]) * (cosine - 1)
            for j in range(len(n1))
        ]
        for i in range(len(n1))
    ]


def apply(matrix: list[Point], x: Point) -> Point:
    return [sum(a * b for a, b in zip(row, x, strict=True)) for row in matrix]


def projector_by_loops(
    history: list[tuple[list[Point], list[int]]], classes: int, energy: float
) -> list[Point] | None:
    """The subspace with so much of the energy of a moving average (0.99) of the σσᵀ of each batch, scaled to
    trace 1; chosen anew at the first update and every tenth one from there.
    """
    dim, updates, projector = len(history[0][0][0]) if history else 0, 0, None
    covariance = np.zeros((dim, dim))
    for number, (points, labels) in enumerate(history):
        values = centres_by_loops(history[:number], classes, dim)
        batch = np.zeros((dim, dim))
        for x, label in zip(points, labels, strict=True):
            if any(values[label]):
                sigma = np.array(x) - np.array(values[label])
                batch += np.outer(sigma, sigma)
        if not batch.any():
            continue
        covariance = 0.99 * covariance + 0.01 * batch / np.trace(batch)
        if updates % 10 == 0:
            spectrum, vectors = np.linalg.eigh(covariance)
            kept: list[int] = []
            while sum(spectrum[kept]) < energy * sum(spectrum):
                kept.append(dim - 1 - len(kept))
            projector = (vectors[:, kept] @ vectors[:, kept].T).tolist()
        updates += 1
    return projector
