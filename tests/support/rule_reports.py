"""Trials that report to a scheduler's rule, validation after validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dmltune.search.engine_trial import Decision, EngineTrial, TrialRole
from dmltune.search.schedulers import Budget, Rule

BUDGET = Budget(max_steps=90, validate_every=10)
ALL_STEPS = list(range(10, 91, 10))
HALVING = ("asha", "promote", "hyperband")


def trial(number: int, role: TrialRole = "search", scores: Sequence[float] = (), **more: Any) -> EngineTrial:
    known = ALL_STEPS[: len(scores)]
    return EngineTrial(
        number, role, {}, steps=known, scores=list(scores), **({"projections": [0] * len(known)} | more)
    )


def run(
    rule: Rule, each: EngineTrial, scores: Sequence[float], projections: Sequence[int] = ()
) -> list[Decision]:
    """Report validation after validation until the trial stops or pauses; a whole trial is ended."""
    answers: list[Decision] = []
    for i in range(len(each.steps), len(scores)):
        each.add(ALL_STEPS[i], scores[i], projections[i] if projections else 0)
        answers.append(rule.report(each))
        if answers[-1] != "continue":
            break
    if len(each.steps) == len(ALL_STEPS) or answers[-1:] == ["stop"]:
        each.state = "pruned" if answers[-1:] == ["stop"] else "complete"
        rule.end(each.number)
    elif answers[-1:] == ["pause"]:
        each.state = "paused"
    return answers
