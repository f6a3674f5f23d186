"""FastAP by loops over queries, centres and points; the squared distance is 2 − 2s clamped to [0, 4]."""

from __future__ import annotations

EXAMPLES = [{"bins": 10}, {"bins": 3}, {"bins": 1}]


def oracle(
    emb: list[list[float]],
    labels: list[int],
    refs: list[list[float]],
    ref_labels: list[int],
    same_set: bool,
    bins: int,
) -> float:
    width = 4 / bins
    values = []
    for i, x in enumerate(emb):
        database = [j for j in range(len(refs)) if not (same_set and i == j)]
        positives = sum(ref_labels[j] == labels[i] for j in database)
        if positives in (0, len(database)):
            continue
        total = relevant = fast_ap = 0.0
        for centre in range(bins + 1):
            at_centre = 0.0
            for j in database:
                squared = 2 - 2 * sum(a * b for a, b in zip(x, refs[j], strict=True))
                weight = max(0.0, 1 - abs(min(max(squared, 0.0), 4.0) - centre * width) / width)
                total += weight
                at_centre += weight if ref_labels[j] == labels[i] else 0.0
            relevant += at_centre
            fast_ap += relevant * at_centre / total if total > 0 else 0.0
        values.append(fast_ap / positives)
    return 1 - sum(values) / len(values) if values else 0.0
