"""The engine's verdict in the scores of the search: the engine always looks for the highest."""

from __future__ import annotations

from typing import Literal

from dmltune.search.state import Outcome, Range
from dmltune.search.winners import Interval, Verdict


def outcome_of(verdict: Verdict | None, mode: Literal["max", "min"]) -> Outcome | None:
    if verdict is None:
        return None
    return Outcome(
        winner=verdict.winner,
        winner_set=verdict.winner_set,
        noise=verdict.noise,
        corrected=_range(verdict.corrected, turned=mode == "min"),
        lead=_range(verdict.lead),
        lead_is_noise=verdict.lead_is_noise,
    )


def _range(interval: Interval | None, turned: bool = False) -> Range | None:
    if interval is None:
        return None
    if turned:
        return Range(-interval.mean, -interval.high, -interval.low)
    return Range(interval.mean, interval.low, interval.high)
