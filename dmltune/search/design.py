"""The score table as arrays: which scores share a seed or a fold, and how much repeated scores differ.

score[i, b] = μ_i + z_b·θ + e,  e ~ N(0, σ²). The columns of z, each a random effect with mean 0:

    seeds   one for each seed block with two or more configurations, the `SEEDS` most used ones at most,
    shift   when most first scores are of one block (the main block): the mean of all seeds minus that block,
    folds   one for each fold but the most frequent one, relative to that fold.

A block with one configuration needs no column of its own: its effect is part of e. So is that of a seed
beyond `SEEDS`: the time of a verdict grows with the third power of the columns, and a mean over so many
paired seeds gains little from one more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dmltune.search.score_table import ScoreTable, fold_of

Floats = NDArray[np.float64]
SEEDS = 12
_SMALLEST_HALVED = 8
_ROUNDING = 1e-12  # relative differences below this are no noise


@dataclass(frozen=True)
class Design:
    """Rows are scores, in the order of `candidates`; columns are the effects of seeds and folds."""

    candidates: list[int]  # the baseline, if any, is the last one
    first: Floats  # (n,) the first score of each candidate
    owner: NDArray[np.int64]  # (rows,) index of the candidate
    scores: Floats  # (rows,)
    columns: Floats  # (rows, columns)
    is_fold: NDArray[np.bool_]  # (columns,)
    shift: int | None  # index of the column `shift`
    is_candidate: NDArray[np.bool_]  # (n,) all but the baseline

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many scores each candidate has."""
        return np.bincount(self.owner, minlength=len(self.candidates))

    @property
    def means(self) -> Floats:
        """The plain means of the candidates."""
        return np.asarray(np.bincount(self.owner, self.scores, len(self.candidates)) / self.counts)

    @property
    def threshold(self) -> float:
        """The median of the first scores; −∞ for a few candidates."""
        firsts = np.sort(self.first[self.is_candidate])
        return float(firsts[len(firsts) // 2]) if len(firsts) >= _SMALLEST_HALVED else -np.inf

    @property
    def high(self) -> NDArray[np.bool_]:
        """Whether a configuration is in the best half, by its first score or its mean."""
        return np.maximum(self.first, self.means) >= self.threshold

    @property
    def knows_noise(self) -> bool:
        """Whether a configuration of the best half has repeated scores that differ."""
        return bool((self.varies & self.high).any())

    @property
    def is_deterministic(self) -> bool:
        """Whether repeated scores of good configurations are exactly equal, three at least.

        A score that other configurations have too is no evidence: it can be a limit of the metric. Neither
        is a bad configuration, which can have collapsed.
        """
        if self.varies.any():
            return False
        values, numbers = np.unique(self.first, return_counts=True)
        tied = numbers[np.searchsorted(values, self.first)] > 1
        return bool((self.counts - 1)[self.high & ~tied].sum() >= 2)

    @property
    def varies(self) -> NDArray[np.bool_]:
        """Whether the scores of a configuration differ by more than rounding."""
        deviation = np.abs(self.scores - self.means[self.owner]) > _ROUNDING * np.abs(self.scores).max()
        return np.asarray(np.bincount(self.owner, deviation, len(self.candidates)) > 0)

    @property
    def noise_of(self) -> NDArray[np.bool_]:
        """Which configurations tell the noise: those of the best half, or all if none of these tells any.

        Bad configurations often have another noise than good ones: ten times as much, or none at all. Good
        ones can be at a limit that the score cannot exceed, which is no sign of deterministic training.
        """
        return self.high if self.knows_noise else np.ones(len(self.candidates), dtype=bool)


def design_of(table: ScoreTable) -> Design:
    """Return the arrays of a table that has at least one score."""
    candidates = table.candidates
    if table.baseline is not None and table.baseline in table.rows:
        candidates.append(table.baseline)
    rows = [table.rows[c] for c in candidates]
    starts = [next(iter(row)) for row in rows]
    used = {block: table.used[block] for block in table.blocks}
    firsts = Counter(starts)
    folds: Counter[Hashable] = Counter()
    for block, number in firsts.items():
        folds[fold_of(block)] += number
    main_block, main_count = firsts.most_common(1)[0]
    anchored = main_count >= 2 and 2 * main_count >= len(candidates)
    shared = [b for b, n in used.items() if n >= 2 and not (anchored and b == main_block)]
    seeds = sorted(shared, key=lambda block: -used[block])[:SEEDS]  # of equally used ones the first
    other_folds = [f for f in dict.fromkeys(fold_of(b) for b in used) if f != folds.most_common(1)[0][0]]
    names: list[tuple[str, Hashable]] = [("seed", b) for b in seeds]
    if anchored and len(used) > 1:
        names.append(("shift", None))
    names += [("fold", f) for f in other_folds]

    def entry(kind: str, key: Hashable, block: Hashable) -> bool:
        if kind == "shift":
            return block != main_block
        return block == key if kind == "seed" else fold_of(block) == key

    place = {block: index for index, block in enumerate(used)}
    by_block = np.array([[entry(kind, key, b) for kind, key in names] for b in used], dtype=float)
    blocks = np.array([place[b] for row in rows for b in row], dtype=np.int64)
    return Design(
        candidates=candidates,
        first=np.array([row[start] for row, start in zip(rows, starts, strict=True)], dtype=float),
        owner=np.repeat(np.arange(len(rows)), [len(row) for row in rows]),
        scores=np.array([s for row in rows for s in row.values()], dtype=float),
        columns=by_block.reshape(len(used), len(names))[blocks],
        is_fold=np.array([kind == "fold" for kind, _ in names], dtype=bool),
        shift=next((j for j, (kind, _) in enumerate(names) if kind == "shift"), None),
        is_candidate=np.array([c != table.baseline for c in candidates]),
    )


def pooled_noise(design: Design, without_seeds: bool = False) -> tuple[float | None, int]:
    """Return the standard deviation within configurations (`noise_of`), with its degrees of freedom.

    s² = Σ_i Σ_b (y_ib − ȳ_i − fold effect)² / (scores − configurations − folds that could be estimated).
    With `without_seeds` the effects of seeds are subtracted too. It is None without degrees of freedom,
    and if scores are equal without being a sign of deterministic training.
    """
    repeated = ((design.counts > 1) & design.noise_of)[design.owner]
    owner, scores = design.owner[repeated], design.scores[repeated]
    if not len(scores):
        return None, 0
    columns = design.columns[repeated][:, design.is_fold | without_seeds]
    counts = np.bincount(owner, minlength=len(design.candidates))
    present = counts > 0

    def centred(values: Floats) -> Floats:
        means = np.bincount(owner, values, len(counts)) / np.maximum(counts, 1)
        return np.asarray(values - means[owner])

    rest = centred(scores)
    used = 0
    if columns.shape[1]:
        within = np.stack([centred(column) for column in columns.T], axis=1)
        effect, _, rank, _ = np.linalg.lstsq(within, rest, rcond=1e-9)
        rest, used = rest - within @ effect, int(rank)
    degrees = len(scores) - int(present.sum()) - used
    if degrees < 1 or not (design.varies.any() or design.is_deterministic):
        return None, 0
    spread = float(np.sqrt((rest**2).sum() / degrees))
    return (spread if spread > _ROUNDING * float(np.abs(scores).max()) else 0.0), degrees
