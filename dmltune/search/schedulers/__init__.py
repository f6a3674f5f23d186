"""Schedulers, found by file name: `schedulers/asha.py` holds the class `Asha`, whose signature is its schema.

A scheduler builds a rule, which is asked after every validation whether the trial goes on. A rule knows
neither Ray nor a clock: the same reports in the same order give the same decisions, in a search and in a
simulation. A higher score is better.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from dmltune.search.engine_trial import Decision, EngineTrial

PACKAGE = "dmltune.search.schedulers"


@dataclass(frozen=True)
class Budget:
    """The length of a trial and how often it is validated."""

    max_steps: int
    validate_every: int


class Rule(Protocol):
    """Decides which trials go on.

    Protected trials (`trial.protected`) are compared with the others, but are never stopped or paused.
    Repetitions are not compared, because their configuration has been already. The states and validations of
    all trials determine the rule: restored after an interruption, it decides as if there had been none.
    """

    def report(self, trial: EngineTrial) -> Decision:
        """Return what happens to the trial after its last validation."""

    def restore(self, trial: EngineTrial) -> None:
        """Enter a trial of an earlier session in its state, with all its validations."""

    def promote(self, closing: bool = False) -> int | None:
        """Return the number of a paused trial that continues now, or None.

        Asked whenever a worker group is free. `closing`: no new trial will be started.
        """

    def end(self, number: int) -> None:
        """Note that a trial is over; `state` of the trial that was reported last is set."""


class Scheduler(Protocol):
    def build(self, budget: Budget) -> Rule:
        """Return a rule that has seen no trial."""


def load(name: str, **parameters: Any) -> Scheduler:
    """Return the scheduler with this name; an unknown name or parameter is a UserError."""
    from dmltune.core import components

    scheduler: Scheduler = components.build(PACKAGE, name, {}, parameters)
    return scheduler
