"""Rungs in projections: a trial is judged at the end of one, and not in the dip after it."""

from __future__ import annotations

import random

import pytest
from support.rule_reports import ALL_STEPS, BUDGET, HALVING, run, trial

from dmltune.search import schedulers
from dmltune.search.engine_trial import TrialRole
from dmltune.search.rungs import Ladder, halving_shares
from dmltune.search.schedulers import Rule

# of the reference point: with reduction 3 rungs at 1 and 2 projections
PROJECTIONS = [*range(1), *range(7), 6]
DIPPED = [0.1, 0.5, 0.2, 0.3, 0.6, 0.4, 0.5, 0.8, 0.7]


def with_reference() -> Rule:
    rule = schedulers.load("asha", unit="projections").build(BUDGET)
    assert run(rule, trial(0, "reference"), DIPPED, PROJECTIONS) == ["continue"] * 9
    return rule


def test_in_projections_a_trial_is_judged_at_its_own_projections_not_at_the_reference_points_steps() -> None:
    slow = [0, 0, 0, 0, 0, 1, 1, 1, 2]
    quick = [0, 1, 2, 2, 3, 3, 4, 4, 5]
    rule = with_reference()
    assert run(rule, trial(1), [0.1] * 9, quick) == ["continue", "stop"]
    # A first projection that lasts longer is judged where the reference point's had ended: it cannot dip.
    # There it is the best of two, and waits for a third.
    assert run(rule, trial(2), [0.65, 0.1, 0.1, 0.1, 0.1], slow) == ["continue"] * 3 + ["pause"]
    assert run(rule, trial(3), [0.1] * 9, slow) == ["continue"] * 2 + ["stop"]
    # A high score before the dip counts in it.
    assert run(rule, trial(4), [0.7, 0.8, 0.05, 0.05, 0.05, 0.05], PROJECTIONS) == ["continue"] * 6


def test_in_projections_nobody_is_judged_before_the_reference_point_has_ended() -> None:
    rule = schedulers.load("asha", unit="projections").build(BUDGET)
    reference, early = trial(0, "reference"), trial(1)
    assert run(rule, reference, DIPPED[:8], PROJECTIONS) == ["continue"] * 8
    assert run(rule, early, [0.01] * 3, PROJECTIONS) == ["continue"] * 3  # past its first projection
    run(rule, reference, DIPPED, PROJECTIONS)
    assert run(rule, early, [0.01] * 9, PROJECTIONS) == ["stop"]  # at its second one
    assert run(rule, trial(2), [0.005] * 9, PROJECTIONS)[-1] == "stop"


@pytest.mark.parametrize(("ended", "rungs"), [(1, [1]), (2, [1]), (4, [1]), (6, [1, 2]), (8, [1, 2])])
def test_rungs_in_projections_are_as_far_apart_as_rungs_in_steps(ended: int, rungs: list[int]) -> None:
    """A rung has at least three times the projections of the one before."""
    ladder = Ladder(BUDGET, halving_shares(3, 2), "projections")
    assert ladder.rungs is None
    projections = [min(ended, count) for count in range(9)]
    ladder.report(trial(0, "reference", DIPPED, projections=projections))
    assert [rung.projections for rung in ladder.rungs or ()] == rungs


@pytest.mark.parametrize("name", HALVING)
def test_without_a_reference_point_the_first_trial_places_the_rungs(name: str) -> None:
    rule = schedulers.load(name, unit="projections").build(BUDGET)
    assert run(rule, trial(0), DIPPED, PROJECTIONS) == ["continue"] * 9
    answers = [run(rule, trial(number), [0.1 / number] * 9, PROJECTIONS) for number in range(1, 18)]
    assert {len(each) for each in answers} <= {3, 4, 9}
    assert sum(each[-1] != "continue" for each in answers) > 8


def test_without_projections_the_unit_is_steps() -> None:
    by_steps, by_projections = (
        schedulers.load("asha", unit=unit).build(BUDGET) for unit in ("steps", "projections")
    )
    numbers = random.Random(1)
    for number in range(30):
        scores = [numbers.random() for _ in ALL_STEPS]
        role: TrialRole = "search" if number else "reference"
        assert run(by_steps, trial(number, role), scores) == run(by_projections, trial(number, role), scores)


def test_a_failed_reference_point_leaves_rungs_in_steps() -> None:
    rule = schedulers.load("asha", unit="projections").build(BUDGET)
    reference = trial(0, "reference")
    run(rule, reference, [0.5] * 5, PROJECTIONS)
    reference.state = "failed"
    rule.end(0)
    run(rule, trial(1), [0.9] * 9, PROJECTIONS)
    assert run(rule, trial(2), [0.1] * 9, PROJECTIONS) == ["stop"]


@pytest.mark.parametrize("name", ["asha", "promote"])
def test_a_trial_at_its_end_is_neither_stopped_nor_paused(name: str) -> None:
    rule = schedulers.load(name, unit="projections").build(BUDGET)
    run(rule, trial(0, "reference"), DIPPED, PROJECTIONS)
    for number in range(1, 4):
        run(rule, trial(number), [0.6] * 4 + [0.95] * 5, PROJECTIONS)
    until_the_end = [0, 0, 1, 1, 1, 1, 1, 1, 2]  # the second rung is reached by the last validation
    assert run(rule, trial(4), [0.9] * 9, until_the_end) == ["continue"] * 9
    assert rule.promote() != 4
