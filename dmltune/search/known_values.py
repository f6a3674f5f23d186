"""What the searches of a store have found about one key: importance, good values, where it had no effect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dmltune.errors import UserError
from dmltune.search.findings import idle_parameters
from dmltune.search.importance import Importance, importances
from dmltune.search.state import IdleParameter
from dmltune.search.stored import StoredSearch

LATEST = 12  # searches: an importance takes up to a second each


@dataclass(frozen=True)
class KnownValue:
    """One search over a key. `good` are the values of the winner set, the winner's first."""

    search: str
    space: str
    metric: str
    status: str
    trials: int  # ended points that have the key
    best: float | None  # the winner's score
    good: tuple[Any, ...]
    importance: Importance | None  # None with too few trials
    idle: IdleParameter | None


def known_values(key: str, searches: Sequence[StoredSearch]) -> list[KnownValue]:
    """Return what the latest searches over `key` say, the latest first; damaged ones are left out."""
    found: list[KnownValue] = []
    for search in reversed(searches):
        if len(found) == LATEST:
            break
        if (value := _of(key, search)) is not None:
            found.append(value)
    return found


def _of(key: str, search: StoredSearch) -> KnownValue | None:
    having = [row for row in search.points() if key in row.values and row.state in ("complete", "pruned")]
    try:
        if key not in search.experiment.space.names or not having:
            return None
        outcome, winner = search.outcome, search.winner
    except UserError:
        return None
    numbers = () if outcome is None else outcome.winner_set
    chosen = [winner] if winner is not None else []
    chosen += [row for row in search.points() if row.number in numbers and row not in chosen]
    good = tuple(row.values[key] for row in chosen if key in row.values)
    idle = next((each for each in idle_parameters([key], search.rows)), None)
    return KnownValue(
        search=search.name,
        space=search.space_name,
        metric=search.metric,
        status=search.status,
        trials=len(having),
        best=None if winner is None else winner.best,
        good=good,
        importance=_importance(key, search),
        idle=idle,
    )


def _importance(key: str, search: StoredSearch) -> Importance | None:
    try:
        return next((row for row in importances(search).parameters if row.name == key), None)
    except UserError:
        return None
