"""What travels between those who want a trial trained and the workers that train it: plain, numbered,
idempotent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Order:
    """Train this experiment in this folder; a checkpoint found there is continued."""

    id: str  # the same trial always has the same id, so posting twice is posting once
    experiment: dict[str, Any]
    folder: str
    data_root: str | None = None
    threads: int = 1
    opening: str = ""  # the line of the test ledger that lets the workers measure on test classes at the end


@dataclass(frozen=True)
class TrialReport:
    """One validation of one trial. `number` counts them, so that a repeated or stale one is recognised."""

    number: int
    step: int
    max_steps: int
    metrics: dict[str, float] = field(default_factory=dict)
    score: float | None = None
    best_score: float | None = None
    best_step: int = 0
    finished: bool = False
    reason: str = ""  # why it finished
    failure: str = ""  # set when the trial cannot go on: one line
    details: str = ""  # and the traceback, when it was not foreseen


LAST = 1_000_000  # the number of a report after which nothing comes


def failed(reason: str, details: str = "") -> TrialReport:
    """The last report of a trial that cannot go on."""
    return TrialReport(
        LAST, step=0, max_steps=0, finished=True, reason="failed", failure=reason, details=details
    )
