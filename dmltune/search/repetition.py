"""Which configuration to train again: the one whose repetition is expected to improve the choice most."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from dmltune.search.beliefs import Beliefs, beliefs
from dmltune.search.design import Floats, design_of, pooled_noise
from dmltune.search.score_table import ScoreTable

_KNOWN_NOISE = 3  # scores of one configuration before its noise counts as measured
_CONSIDERED = 300  # candidates with the highest posterior means
_SURE = 0.01  # no repetition when the best is elsewhere with a probability below this

Block = tuple[int, int]  # seed and fold


@dataclass(frozen=True)
class Repetition:
    """Train the configuration of trial `candidate` with this seed and fold."""

    candidate: int
    block: Block


def next_repetition(
    table: ScoreTable,
    *,
    spare: int,
    noise: float | None = None,
    pending: Collection[tuple[int, Block]] = (),
) -> Repetition | None:
    """Return the next repetition; None when none can change the result.

    Until the noise of good configurations is known, the leader is repeated. Then the repetition with the
    highest value is next (`repetition_values`). The baseline is repeated as often as the leader while the
    sign of the lead is not sure. `noise` is the standard deviation of a score if it is known from elsewhere.
    `pending` are the candidates and blocks of repetitions under way, which are counted as if they had
    confirmed what is known.
    """
    if spare < 1 or not table.candidates:
        return None
    design = design_of(table)
    measured, degrees = pooled_noise(design)
    if noise == 0 or (noise is None and measured == 0):
        return None  # training is deterministic
    awaited = Counter(candidate for candidate, _ in pending)
    if noise is None and (degrees < _KNOWN_NOISE - 1 or not design.knows_noise):
        ranked = sorted(table.candidates, key=table.mean, reverse=True)
        open_ = (c for c in ranked if table.count(c) + awaited[c] < _KNOWN_NOISE)
        candidate = next(open_, ranked[0])
    else:
        belief = beliefs(design, noise)
        chosen = None if belief is None else _choose(table, belief, spare, awaited)
        if chosen is None:
            return None
        candidate = chosen
    return Repetition(candidate, next_block(table, candidate, pending))


def _choose(table: ScoreTable, belief: Beliefs, spare: int, awaited: Counter[int]) -> int | None:
    """Return the candidate or baseline to repeat."""
    number = len(table.candidates)
    index = int(np.argmax(belief.expected[:number]))
    leader = belief.candidates[index]
    best_is_sure = bool(belief.not_below(index)[:number].sum() - 1 < _SURE)
    baseline = table.baseline
    if baseline is not None and baseline in belief.candidates:
        below = belief.difference(index, belief.candidates.index(baseline)).below(0.0)
        behind = table.count(baseline) + awaited[baseline] < table.count(leader) + awaited[leader]
        if min(below, 1 - below) >= _SURE and (behind or best_is_sure):
            return baseline if behind else leader
    if best_is_sure:
        return None
    waiting = np.array([awaited[c] for c in belief.candidates[:number]])
    return belief.candidates[int(np.argmax(repetition_values(belief, number, spare, waiting)))]


def repetition_values(belief: Beliefs, number: int, spare: int, waiting: Floats | None = None) -> Floats:
    """Return the expected gain per repetition of each of the first `number` candidates (number,).

    The expected gain of the best posterior mean from k more scores ("knowledge gradient"), with the best k:

        value_i = max_k (s φ(δ/s) − δ Φ(−δ/s)) / k,   s² = v_i² / (v_i + σ²/k),   k ≤ spare,

    where v_i is the variance that repetitions can remove and δ the distance of i's mean from that of the best
    other candidate. `waiting` counts the repetitions under way, which reduce v_i beforehand.
    """
    expected, own = belief.expected[:number], belief.own_variances[:number]
    noise2 = float(belief.weights @ belief.noise**2)
    if waiting is not None:
        own = own * noise2 / (noise2 + waiting * own)
    values = np.full(number, -1.0)
    considered = np.argsort(-expected, kind="stable")[:_CONSIDERED]
    if number == 1:
        return np.zeros(1)
    best, second = considered[:2]
    rival = np.where(considered == best, expected[second], expected[best])
    distance = np.abs(expected[considered] - rival)
    gains = []
    for k in (k for k in (1, 2, 3, 5, 8, 13) if k <= spare):
        change = own[considered] / np.sqrt(own[considered] + noise2 / k)
        gains.append(_gain(distance, change) / k)
    values[considered] = np.max(gains, axis=0)
    return values


def _gain(distance: Floats, change: Floats) -> Floats:
    """Return E[max(0, X)] of X ~ N(−distance, change²)."""
    z = distance / change
    return np.asarray(change * np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi) - distance * ndtr(-z))


def next_block(table: ScoreTable, candidate: int, pending: Collection[tuple[int, Block]] = ()) -> Block:
    """Return the block on which a candidate's next score can be compared with the most other scores.

    The fold on which it has the fewest scores; there the block of the most configurations, and of equally
    used ones the lowest seed. When it has all seeds that are in use, a new seed follows them.
    """
    begun = {block for other, block in pending if other == candidate}
    own = {*_blocks(table.scores(candidate)), *begun}
    used = Counter({block: table.used[block] for block in _blocks(table.used)})
    used.update(block for _, block in pending)
    folds = {block[1] for block in used} or {0}
    per_fold = Counter(block[1] for block in own)
    fold = min(folds, key=lambda fold: (per_fold[fold], fold))
    shared = [block for block in used if block[1] == fold and block not in own]
    seeds = [seed for seed, _ in used] or [0]
    fresh = next((s, fold) for s in itertools.count(min(seeds)) if (s, fold) not in own)
    return min(shared, key=lambda block: (-used[block], block[0]), default=fresh)


def _blocks(blocks: Iterable[Hashable]) -> list[Block]:
    return [block for block in blocks if isinstance(block, tuple)]
