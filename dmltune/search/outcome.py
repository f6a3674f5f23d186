"""The engine's verdict in the scores of the search: the engine always looks for the highest."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Literal

from dmltune.search.state import Front, Outcome, Range
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


def front_of_search(front: Front | None, mode: Literal["max", "min"]) -> Front | None:
    if front is None or mode == "max":
        return front
    members = [replace(each, score=-each.score, interval=_turned(each.interval)) for each in front.members]
    return replace(front, members=tuple(members))


def with_model(outcome: Outcome | None, stored: Collection[int], best: int | None) -> Outcome | None:
    """Return the outcome with a winner whose model is stored.

    Models of the best by plain scores and of the repeated trials are stored. Should the winner be none of
    them, the best stored one that cannot be told from it wins, else `best`; the intervals were those of the
    other trial and are left out.
    """
    if outcome is None or best is None or outcome.winner in stored:
        return outcome
    winner = next((number for number in outcome.winner_set if number in stored), best)
    others = tuple(number for number in outcome.winner_set if number != winner)
    return Outcome(winner, (winner, *others), outcome.noise)


def _turned(interval: Range | None) -> Range | None:
    return None if interval is None else Range(-interval.mean, -interval.high, -interval.low)
