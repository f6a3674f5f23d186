"""The result of a search whose scores are noisy: a winner, and all that cannot be told from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dmltune.search.beliefs import Beliefs, beliefs
from dmltune.search.chosen import Chosen
from dmltune.search.design import design_of, pooled_noise
from dmltune.search.mixtures import Mixture
from dmltune.search.score_table import ScoreTable
from dmltune.search.state import Range


@dataclass(frozen=True)
class Verdict:
    """The winner with its evidence. Intervals are None as long as nothing is known about the noise."""

    winner: int
    winner_set: tuple[int, ...]  # best first
    noise: float | None  # the standard deviation of a score
    noise_degrees: int  # how many degrees of freedom it has; 0 for one that was given
    corrected: Range | None  # the winner's true mean, corrected for its having been chosen
    lead: Range | None  # winner minus baseline, with the same correction
    lead_is_noise: bool | None  # whether the interval of the lead contains 0


def judge(table: ScoreTable, *, noise: float | None = None, level: float = 0.95) -> Verdict | None:
    """Return the verdict on a table; None without a candidate.

    The winner has the highest posterior mean. Of n candidates, i leaves the winner set if
    P(μ_i ≥ μ_winner) < (1 − level)/n. By the union bound the best is in it with a probability of `level`.
    `noise` is the standard deviation of a score; without it the repeated scores tell it.
    """
    if not table.candidates:
        return None
    design = design_of(table)
    measured, degrees = pooled_noise(design)
    known = measured if noise is None else noise
    belief = beliefs(design, noise)
    if belief is None:
        return _by_score(table, known, degrees)
    number = len(table.candidates)
    expected = belief.expected[:number]
    winner = int(np.argmax(expected))
    members = winner_set(belief, number, level)
    chosen, lead = Chosen(design, belief, winner, noise), None
    if table.baseline in belief.candidates:
        lead = interval_of(chosen.mean(belief.candidates.index(table.baseline)), level)
    return Verdict(
        winner=belief.candidates[winner],
        winner_set=tuple(belief.candidates[i] for i in members),
        noise=known,
        noise_degrees=0 if noise is not None else degrees,
        corrected=interval_of(chosen.mean(), level),
        lead=lead,
        lead_is_noise=None if lead is None else lead.low <= 0 <= lead.high,
    )


def leader(table: ScoreTable) -> tuple[int, float | None] | None:
    """Return the winner and the noise of the verdict on a table, without the work of its intervals."""
    if not table.candidates:
        return None
    design = design_of(table)
    noise, degrees = pooled_noise(design)
    belief = beliefs(design)
    if belief is None:
        return _by_score(table, noise, degrees).winner, noise
    return belief.candidates[int(np.argmax(belief.expected[: len(table.candidates)]))], noise


def winner_set(belief: Beliefs, number: int, level: float) -> list[int]:
    """Return the indices, best first, of those among the first `number` that cannot be told from the best."""
    expected = belief.expected[:number]
    winner = int(np.argmax(expected))
    chances = belief.not_below(winner)[:number]
    stay = np.flatnonzero(chances >= (1 - level) / number)
    stay = stay[np.argsort(-expected[stay], kind="stable")]
    return [winner, *(int(i) for i in stay if i != winner)]


def _by_score(table: ScoreTable, noise: float | None, degrees: int) -> Verdict:
    """Return the verdict by plain means: without noise the best is sure, with unknown noise nothing is."""
    means = {candidate: table.mean(candidate) for candidate in table.candidates}
    winner = max(means, key=lambda candidate: means[candidate])
    tied = tuple(c for c in means if c != winner and np.isclose(means[c], means[winner], rtol=1e-12, atol=0))
    corrected = lead = None
    if noise == 0:
        corrected = Range(means[winner], means[winner], means[winner])
        if table.baseline is not None and table.baseline in table.rows:
            difference = means[winner] - table.mean(table.baseline)
            lead = Range(difference, difference, difference)
    return Verdict(
        winner=winner,
        winner_set=(winner, *tied),
        noise=noise,
        noise_degrees=degrees,
        corrected=corrected,
        lead=lead,
        lead_is_noise=None if lead is None else lead.mean == 0,
    )


def interval_of(values: Mixture, level: float) -> Range:
    tail = (1 - level) / 2
    return Range(values.mean, values.quantile(tail), values.quantile(1 - tail))
