"""C1 by loops over pairs."""

from __future__ import annotations

EXAMPLES = [{"margin": 0.5}, {"margin": -0.2}]


def oracle(
    emb: list[list[float]],
    labels: list[int],
    refs: list[list[float]],
    ref_labels: list[int],
    same_set: bool,
    margin: float,
) -> float:
    total = 0.0
    for i, x in enumerate(emb):
        for j, y in enumerate(refs):
            if same_set and i == j:
                continue
            similarity = sum(a * b for a, b in zip(x, y, strict=True))
            if labels[i] == ref_labels[j]:
                total += 1 - similarity if similarity < 1 - 1e-5 else 0.0
            else:
                total += similarity if similarity > margin else 0.0
    return total / len(emb)
