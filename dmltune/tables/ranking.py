"""The best and the second of a column. A mark needs a significant difference to the next.

Models of two configurations are paired by fold and seed where both have them. Otherwise they are two samples,
compared with Welch's test.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dmltune.check.comparison import compare_scores, holm

LEVEL = 0.95
FEWEST_PAIRS = 2
Scores = Mapping[tuple[int, int], float]  # (fold, seed) → score of a model


@dataclass(frozen=True)
class Place:
    """`index` of a candidate; `p_next` is of the difference to the next, if known."""

    index: int
    mark: str
    p_next: float | None


def ranked(candidates: Sequence[tuple[Scores, float]]) -> list[Place]:
    """Return the candidates (scores, mean) from the highest mean on.

    Two tests are made, best against second and second against third, with Holm's correction. The second is
    marked only below a marked best.
    """
    order = sorted(range(len(candidates)), key=lambda index: -candidates[index][1])
    scores = [candidates[index][0] for index in order[:3]]
    p_values = [p_value(left, right) for left, right in itertools.pairwise(scores)]
    corrected = holm([math.nan if p is None else p for p in p_values])
    significant = list(itertools.takewhile(lambda p: p < 1 - LEVEL, corrected))
    marks = ("best", "second")[: len(significant)]
    return [
        Place(index, mark or "", None if p is None or math.isnan(p) else p)
        for index, mark, p in itertools.zip_longest(order, marks, corrected)
    ]


def p_value(left: Scores, right: Scores) -> float | None:
    """Return the two-sided p of the difference; None when it cannot be measured."""
    pairs = sorted(set(left) & set(right))
    if len(pairs) >= FEWEST_PAIRS:
        folds = np.array([fold for fold, _ in pairs])
        ours, base = (np.array([side[pair] for pair in pairs]) for side in (left, right))
        p = compare_scores(ours, base, folds, LEVEL).p
        if math.isfinite(p):
            return p
    if min(len(left), len(right)) < 2:
        return None
    (ours, folds), (base, base_folds) = (
        (np.array(list(side.values())), np.array([fold for fold, _ in side])) for side in (left, right)
    )
    if np.ptp(ours) == np.ptp(base) == 0:
        return None  # equal scores say nothing about other seeds
    p = compare_scores(ours, base, folds, LEVEL, base_fold_M=base_folds).p
    return p if math.isfinite(p) else None
