"""Generalised max pooling: the dual system by Gaussian elimination in plain Python."""

from __future__ import annotations

EXAMPLES: list[dict] = [{"ridge": 1.0}, {"ridge": 0.05}]


def oracle(features: list, weights: dict, ridge: float) -> list[list[float]]:
    return [pool(positions(image), ridge) for image in features]


def pool(local: list[list[float]], ridge: float) -> list[float]:
    mean_square = sum(dot(f, f) for f in local) / len(local)
    system = [
        [dot(f, g) / mean_square + (ridge if i == j else 0.0) for j, g in enumerate(local)] + [1.0]
        for i, f in enumerate(local)
    ]
    alpha = solve(system)
    return [sum(a * f[d] for a, f in zip(alpha, local, strict=True)) for d in range(len(local[0]))]


def solve(rows: list[list[float]]) -> list[float]:
    """The solution of the system whose last column is the right-hand side."""
    size = len(rows)
    for i in range(size):
        best = max(range(i, size), key=lambda r: abs(rows[r][i]))
        rows[i], rows[best] = rows[best], rows[i]
        for r in range(i + 1, size):
            factor = rows[r][i] / rows[i][i]
            rows[r] = [x - factor * y for x, y in zip(rows[r], rows[i], strict=True)]
    solution = [0.0] * size
    for i in reversed(range(size)):
        known = sum(rows[i][j] * solution[j] for j in range(i + 1, size))
        solution[i] = (rows[i][size] - known) / rows[i][i]
    return solution


def dot(x: list[float], y: list[float]) -> float:
    return sum(a * b for a, b in zip(x, y, strict=True))


def positions(image: list) -> list[list[float]]:
    rows, columns = range(len(image[0])), range(len(image[0][0]))
    return [[channel[i][j] for channel in image] for i in rows for j in columns]
