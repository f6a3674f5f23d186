"""Cheap trainings that sort out points, once their order has been shown to be that of full ones.

Notation: a twin is the cheap training of a point that is trained in full as well. The first `trials` points
run to their end, and each has a twin. The rank correlation r of their scores (Spearman) has a 90 % interval;
the fidelity is trusted if r is at least the threshold and the interval is above 0.

Trusted, every new point is trained cheaply first. After every `keep` of these the best that waits is trained
in full. (A share of all cheap scores so far would let nearly all pass: a sampler's points get better.)
Else nothing is trained cheaply any more. All this follows from the trials alone, so a resumed search decides
what an undisturbed one would.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dmltune.experiment.fidelity import Fidelity
from dmltune.search.engine_trial import EngineTrial
from dmltune.search.rank_correlation import interval, spearman
from dmltune.search.state import Trust

Key = tuple[tuple[str, Any], ...]
_OVER = ("complete", "pruned", "failed")


def key_of(values: Mapping[str, Any]) -> Key:
    return tuple(sorted(values.items()))


@dataclass(frozen=True)
class Pair:
    """A point with its full and its cheap score; a failed training has −∞."""

    full: float
    cheap: float


class Screening:
    """Which trainings of points are cheap."""

    def __init__(self, fidelity: Fidelity) -> None:
        self.fidelity = fidelity
        self._trust: Trust | None = None

    def trust(self, trials: Iterable[EngineTrial]) -> Trust | None:
        """Return what the first points say; None before all of them and their twins have ended."""
        if self._trust is None:
            pairs = self._pairs(list(trials))
            if pairs is not None:
                self._trust = judged(pairs, self.fidelity.threshold)
        return self._trust

    def is_used(self, trials: Iterable[EngineTrial]) -> bool:
        return (trust := self.trust(trials)) is not None and trust.trusted

    def twinless(self, trials: Iterable[EngineTrial]) -> EngineTrial | None:
        """Return one of the first points whose twin was not begun."""
        trials = list(trials)
        cheap = {key_of(trial.values) for trial in trials if trial.role == "cheap"}
        return next((point for point in self._first(trials) if key_of(point.values) not in cheap), None)

    def promising(self, trials: Iterable[EngineTrial], closing: bool = False) -> EngineTrial | None:
        """Return the best cheap trial that waits for its full training, if one may begin: 1 of `keep`.

        `closing`: no cheap trial follows, and the best begins once none is running.
        """
        own, waiting = self._sorting(list(trials))
        ended = sum(trial.state in _OVER for trial in own)
        allowed = ended == len(own) if closing else len(own) - len(waiting) < ended // self.fidelity.keep
        scored = [trial for trial in waiting if score_of(trial) > -math.inf]
        return max(scored, key=lambda t: (score_of(t), -t.number), default=None) if allowed else None

    def may_begin(self, trials: Iterable[EngineTrial], left: float) -> bool:
        """Return whether of `left` full trainings one remains after another cheap trial, and those owed."""
        own, waiting = self._sorting(list(trials))
        owed = max(0, len(own) // self.fidelity.keep - (len(own) - len(waiting)))
        return left - owed - self.fidelity.cost >= 1

    def _sorting(self, trials: Sequence[EngineTrial]) -> tuple[list[EngineTrial], list[EngineTrial]]:
        """Return the cheap trials that are no twins, and those of them without a full training."""
        full = {key_of(trial.values): trial.number for trial in trials if trial.is_point}
        cheap = [trial for trial in trials if trial.role == "cheap"]
        # a twin is younger than its point
        own = [trial for trial in cheap if full.get(key_of(trial.values), math.inf) > trial.number]
        return own, [trial for trial in own if key_of(trial.values) not in full]

    def _first(self, trials: Sequence[EngineTrial]) -> list[EngineTrial]:
        points = sorted((trial for trial in trials if trial.is_point), key=lambda trial: trial.number)
        return points[: self.fidelity.trials]

    def _pairs(self, trials: Sequence[EngineTrial]) -> list[Pair] | None:
        cheap = {key_of(trial.values): trial for trial in trials if trial.role == "cheap"}
        pairs = [(full, cheap.get(key_of(full.values))) for full in self._first(trials)]
        if len(pairs) < self.fidelity.trials:
            return None
        over = [
            Pair(score_of(full), score_of(twin)) for full, twin in pairs if _both_over(full, twin) and twin
        ]
        return over if len(over) == len(pairs) else None


def _both_over(full: EngineTrial, twin: EngineTrial | None) -> bool:
    return full.state in _OVER and twin is not None and twin.state in _OVER


def score_of(trial: EngineTrial) -> float:
    """Return the best score of the trained network, −∞ for a failed trial.

    The untrained network may have a higher one, above all on small images, and it has the same in all trials.
    """
    known = trial.state == "complete" and trial.best is not None and math.isfinite(trial.best)
    return float(trial.best or 0.0) if known else -math.inf


def judged(pairs: Sequence[Pair], threshold: float) -> Trust:
    """Return the rank correlation of the pairs, and whether it is enough."""
    correlation = spearman([pair.cheap for pair in pairs], [pair.full for pair in pairs])
    low, high = interval(correlation, len(pairs))
    return Trust(len(pairs), correlation, low, high, threshold, correlation >= threshold and low > 0)
