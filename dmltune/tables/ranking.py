"""Who is best and who second in a column: marked only above the next by more than chance.

Models of two configurations are paired by fold and seed where both have them; otherwise their means are
compared with Welch's test on the standard errors that the intervals say.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

LEVEL = 0.95
FEWEST_PAIRS = 2
Scores = Mapping[tuple[int, int], float]
Candidate = tuple[Scores, float, float | None, float | None, float | None]  # scores, mean, low, high, df


@dataclass(frozen=True)
class Place:
    """`index` of the candidate that was given; `p_next` is None for the last and where nobody can tell."""

    index: int
    mark: str
    p_next: float | None


def ranked(candidates: Sequence[Candidate], level: float = LEVEL) -> list[Place]:
    """Candidates from the highest mean on. Two tests are made, best against second and second against third,
    Holm-corrected; the second is marked only below a marked best.
    """
    order = sorted(range(len(candidates)), key=lambda index: -candidates[index][1])
    tests = min(2, len(order) - 1)
    p = corrected([p_value(candidates[order[i]], candidates[order[i + 1]]) for i in range(tests)])
    marks = ["", ""]
    if p and p[0] is not None and p[0] < 1 - level:
        marks[0] = "best"
        if len(p) > 1 and p[1] is not None and p[1] < 1 - level:
            marks[1] = "second"
    return [
        Place(index, marks[place] if place < 2 else "", p[place] if place < len(p) else None)
        for place, index in enumerate(order)
    ]


def corrected(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm over those that are known."""
    from dmltune.check.statistics import holm

    known = [place for place, p in enumerate(p_values) if p is not None]
    found: list[float | None] = [None] * len(p_values)
    for place, p in zip(known, holm([p for p in p_values if p is not None]), strict=True):
        found[place] = p
    return found


def p_value(left: Candidate, right: Candidate) -> float | None:
    """Two-sided; None when neither pairs nor intervals say how much is chance."""
    pairs = sorted(set(left[0]) & set(right[0]))
    if len(pairs) >= FEWEST_PAIRS:
        from dmltune.check.statistics import compare_scores

        folds = np.array([fold for fold, _ in pairs])
        ours, base = (np.array([side[0][pair] for pair in pairs]) for side in (left, right))
        p = float(compare_scores(ours, base, folds, LEVEL).p)
        if math.isfinite(p):
            return p
    return welch(left, right)


def welch(left: Candidate, right: Candidate) -> float | None:
    """t = (m₁ − m₂)/√(s₁² + s₂²), s the standard error of a mean: half an interval over its t quantile;
    degrees of freedom (s₁² + s₂²)²/(s₁⁴/f₁ + s₂⁴/f₂).
    """
    from scipy import stats

    squares, shares = 0.0, 0.0
    for _, _, low, high, df in (left, right):
        if low is None or high is None or df is None or df <= 0:
            return None
        square = ((high - low) / 2 / float(stats.t.ppf((1 + LEVEL) / 2, df))) ** 2
        squares, shares = squares + square, shares + square**2 / df
    if squares == 0:
        return None  # scores that agree to the last digit say nothing about other seeds
    t = (left[1] - right[1]) / math.sqrt(squares)
    return float(2 * stats.t.sf(abs(t), squares**2 / shares))
