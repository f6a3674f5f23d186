"""The engine's verdict in the scores of the search: the engine always looks for the highest."""

from __future__ import annotations

from typing import Literal

from dmltune.search.state import Outcome, Range
from dmltune.search.winners import Verdict


def outcome_of(verdict: Verdict | None, mode: Literal["max", "min"]) -> Outcome | None:
    if verdict is None:
        return None
    return Outcome(
        winner=verdict.winner,
        winner_set=verdict.winner_set,
        noise=verdict.noise,
        corrected=_turned(verdict.corrected) if mode == "min" else verdict.corrected,
        lead=verdict.lead,
        lead_is_noise=verdict.lead_is_noise,
    )


def _turned(interval: Range | None) -> Range | None:
    return None if interval is None else Range(-interval.mean, -interval.high, -interval.low)
