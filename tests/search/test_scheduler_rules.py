"""Each scheduler's own rule, by brute force and by example."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.rule_reports import ALL_STEPS, BUDGET, run, trial

from dmltune.search import schedulers
from dmltune.search.engine_trial import EngineTrial
from dmltune.search.rungs import Ladder, halving_shares
from dmltune.search.schedulers import Budget


@settings(deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.integers(2, 4))
def test_asha_stops_whoever_is_not_among_the_best_of_its_rung_so_far(
    levels: list[int], reduction: int
) -> None:
    rule = schedulers.load("asha", reduction=reduction, rungs=1, early=False).build(BUDGET)
    rung = 90 // reduction
    at = next(i for i, step in enumerate(ALL_STEPS) if step >= rung)
    for number, level in enumerate(levels):
        ahead = sum(other >= level for other in levels[:number])
        answers = run(rule, trial(number), [float(level)] * 9)
        if ahead + 1 <= (number + 1) / reduction:
            assert answers == ["continue"] * 9
        else:
            stops = ahead >= (number + 1) / reduction
            assert answers == ["continue"] * at + ["stop" if stops else "pause"]


def test_asha_judges_by_the_best_score_so_far() -> None:
    rule = schedulers.load("asha", reduction=3, rungs=1).build(BUDGET)
    for number in range(2):
        run(rule, trial(number), [0.5] * 9)
    assert run(rule, trial(2), [0.1, 0.9, 0.2, 0.2]) == ["continue"] * 4
    assert run(rule, trial(3), [0.1, 0.2, 0.2, 0.9]) == ["continue"] * 2 + ["stop"]


def test_asha_continues_who_waited_for_others_while_it_is_among_the_best() -> None:
    rule = schedulers.load("asha", rungs=1).build(BUDGET)
    first, worse, third = trial(0), trial(1), trial(2)
    assert run(rule, first, [0.5] * 9)[-1] == "pause", "alone it is neither good nor bad"
    assert rule.promote() is None
    assert run(rule, worse, [0.4] * 9)[-1] == "stop"
    assert run(rule, third, [0.4] * 9)[-1] == "stop"
    assert rule.promote() == 0, "one of three goes on"
    assert run(rule, first, [0.5] * 9) == ["continue"] * 6
    assert rule.promote(closing=True) is None


def test_asha_leaves_who_waited_where_it_is_once_better_ones_have_come() -> None:
    rule = schedulers.load("asha", rungs=1).build(BUDGET)
    assert run(rule, trial(0), [0.5] * 9)[-1] == "pause"
    assert run(rule, trial(1), [0.6] * 9)[-1] == "pause"
    assert run(rule, trial(2), [0.7] * 9) == ["continue"] * 9
    assert rule.promote() is None
    assert rule.promote(closing=True) is None


@pytest.mark.parametrize("name", ["asha", "promote"])
def test_of_a_few_trials_the_best_comes_to_its_end_when_no_more_are_started(name: str) -> None:
    rule = schedulers.load(name).build(BUDGET)
    levels = [0.4, 0.6]
    trials = [trial(number) for number in range(2)]
    for each, level in zip(trials, levels, strict=True):
        run(rule, each, [level] * 9)
    assert rule.promote() is None
    while (number := rule.promote(closing=True)) is not None:
        run(rule, trials[number], [levels[number]] * 9)
    assert [each.state for each in trials] == ["paused", "complete"]


@pytest.mark.parametrize("name", ["asha", "promote", "hyperband", "median", "topk"])
def test_the_score_of_the_untrained_network_does_not_count(name: str) -> None:
    answers = []
    for known in ([], [0]):
        rule = schedulers.load(name).build(BUDGET)
        numbers = random.Random(2)
        for number in range(30):
            each = EngineTrial(number, "search", {}, steps=list(known), scores=[0.9] * len(known))
            each.projections = [0] * len(known)
            if known:
                rule.report(each)
            for step in ALL_STEPS:
                each.add(step, numbers.random() / 2)
                answers.append(rule.report(each))
    half = len(answers) // 2
    assert answers[:half] == answers[half:]
    assert {"stop", "pause"} & set(answers)


def test_rungs_lie_at_parts_of_the_budget_and_never_before_the_first_validation() -> None:
    def stops_after(budget: Budget, **parameters: int) -> int:
        rule = schedulers.load("asha", **parameters).build(budget)
        for number in range(2):
            run(rule, trial(-1 - number), [0.9] * 9)
        return len(run(rule, trial(1), [0.5] * 9))

    assert stops_after(BUDGET) == 1
    assert stops_after(BUDGET, rungs=1) == 3
    assert stops_after(BUDGET, reduction=2, rungs=2) == 3  # step 22: the validation at 30
    assert stops_after(Budget(90, 40)) == 4
    assert stops_after(Budget(90, 90)) == 9


EARLY = Budget(81, 1)  # rungs at 9 and 27, and an early one at the first validation


def ends(
    name: str, scores_at: Callable[[int, int], float], trials: int = 40, **parameters: bool
) -> list[int]:
    """Return after how many validations each trial is stopped or paused, one after another."""
    rule = schedulers.load(name, **parameters).build(EARLY)
    lengths = []
    for number in range(trials):
        each = EngineTrial(number, "search", {})
        for step in range(1, 28):
            each.add(step, scores_at(number, step))
            if rule.report(each) != "continue":
                break
        lengths.append(each.steps[-1])
    return lengths


def level(number: int) -> float:
    return random.Random(number).random()


@pytest.mark.parametrize("name", ["asha", "promote"])
def test_first_validations_stop_trials_once_they_have_told_the_order(name: str) -> None:
    told = ends(name, lambda number, step: level(number) + step)
    assert min(told[:16]) == 9, "the first trials pass the early rung"
    best = sorted(range(40), key=level, reverse=True)
    assert name == "promote" or all(told[number] == 27 for number in best[:3])
    assert sum(length == 1 for length in told[16:]) > 16
    assert told[:16] == ends(name, lambda number, step: level(number) + step, early=False)[:16]


@pytest.mark.parametrize("name", ["asha", "promote"])
def test_first_validations_that_tell_nothing_stop_nobody(name: str) -> None:
    def crossing(number: int, step: int) -> float:
        return -level(number) if step < 5 else level(number) + step

    assert ends(name, crossing) == ends(name, crossing, early=False)
    assert min(ends(name, crossing)) == 9
    unrelated = ends(name, lambda number, step: level(97 * number + step) / 2 + step)
    assert min(unrelated) == 9


def test_an_early_rung_passes_as_few_as_the_next_one_is_later() -> None:
    def rungs(budget: Budget, **options: Any) -> tuple[list[int], int]:
        ladder = Ladder(budget, halving_shares(3, 2), early=True, **options)
        return [rung.step for rung in ladder.rungs or ()], ladder.reduction(0, 3)

    assert rungs(EARLY) == ([1, 9, 27], 9)
    assert rungs(Budget(51, 1)) == ([1, 5, 17], 5)
    assert rungs(Budget(600, 1)) == ([7, 66, 200], 9)
    assert rungs(Budget(600, 30)) == ([30, 66, 200], 3)
    assert rungs(BUDGET) == ([10, 30], 3), "the first rung is at the first validation"
    assert Ladder(EARLY, halving_shares(3, 2), "projections", early=True).rungs is None


def test_promote_continues_the_best_paused_trial_of_the_highest_rung() -> None:
    rule = schedulers.load("promote").build(BUDGET)  # rungs at 10 and 30
    levels = [0.3, 0.9, 0.5, 0.8, 0.1, 0.7, 0.2, 0.4, 0.6]
    trials = [trial(number) for number in range(9)]
    for each in trials[:3]:
        run(rule, each, [levels[each.number]] * 9)
    assert [each.state for each in trials[:3]] == ["paused"] * 3
    assert rule.promote() == 1
    assert rule.promote() is None  # one third of three
    assert run(rule, trials[1], [0.9] * 9)[-1] == "pause"  # alone at the second rung
    for each in trials[3:]:
        run(rule, each, [levels[each.number]] * 9)
    trials[3].state = "running"
    assert [rule.promote(), rule.promote(), rule.promote()] == [3, 5, None]
    for number in (3, 5):
        assert run(rule, trials[number], [levels[number]] * 9)[-1] == "pause"
    for number in range(9, 12):
        run(rule, trial(number), [0.05] * 9)  # now trial 8 is in the best third of the first rung
    assert rule.promote() == 1  # the best third of the second rung's three comes before
    assert rule.promote() == 8
    assert run(rule, trials[1], [0.9] * 9) == ["continue"] * 6


def test_promote_does_not_pause_a_trial_that_it_would_continue_at_once() -> None:
    rule = schedulers.load("promote", rungs=1).build(BUDGET)
    for number in range(2):
        assert run(rule, trial(number), [0.5] * 9)[-1] == "pause"
    assert run(rule, trial(2), [0.6] * 9) == ["continue"] * 9


def test_hyperband_has_brackets_by_trial_number_in_its_proportions() -> None:
    from dmltune.search.schedulers.hyperband import bracket_order

    order = bracket_order(3, 2)
    assert [order.count(bracket) for bracket in range(3)] == [9, 5, 3]
    rule = schedulers.load("hyperband").build(BUDGET)
    run(rule, trial(17 * 9, "reference"), [0.9] * 9)
    lengths = [len(run(rule, trial(number), [0.1 - 0.001 * number] * 9)) for number in range(17)]
    assert lengths == [(1, 3, 9)[bracket] for bracket in order]


def test_hyperband_compares_within_a_bracket_only() -> None:
    from dmltune.search.schedulers.hyperband import bracket_order

    order = bracket_order(3, 2)
    first, *others = [number for number in range(17) if order[number] == 0]
    other = order.index(1)
    rule = schedulers.load("hyperband", rungs=2).build(BUDGET)
    run(rule, trial(other), [0.9] * 9)
    waiting = trial(first)
    assert run(rule, waiting, [0.5] * 9) == ["pause"]
    assert run(rule, trial(others[0]), [0.4] * 9) == ["stop"]
    assert rule.promote() is None
    assert run(rule, trial(others[1]), [0.3] * 9) == ["stop"]
    assert rule.promote() == first, "the better one of another bracket does not count"


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 9), min_size=9, max_size=9), min_size=1, max_size=12))
def test_median_is_the_rule_as_written_down(curves: list[list[int]]) -> None:
    import statistics

    rule = schedulers.load("median", grace=0.3, others=3).build(BUDGET)
    seen: list[list[int]] = []
    for number, curve in enumerate(curves):
        answers = run(rule, trial(number), [float(score) for score in curve])
        for length, answer in enumerate(answers, start=1):
            means = [statistics.fmean(other[:length]) for other in seen if len(other) >= length]
            stops = ALL_STEPS[length - 1] >= 27 and len(means) >= 3
            stops = stops and max(curve[:length]) < statistics.median(means)
            assert answer == ("stop" if stops else "continue")
        seen.append(curve[: len(answers)])


@settings(deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.integers(1, 4))
def test_topk_pauses_all_at_one_rung_and_continues_the_best_when_no_more_are_started(
    levels: list[int], keep: int
) -> None:
    rule = schedulers.load("topk", keep=keep, rung=0.25).build(BUDGET)
    for number, level in enumerate(levels):
        assert run(rule, trial(number), [float(level)] * 9) == ["continue"] * 2 + ["pause"]
        assert rule.promote() is None
    promoted = [rule.promote(closing=True) for _ in range(len(levels) + 1)]
    best = sorted(range(len(levels)), key=lambda number: (-levels[number], number))[:keep]
    assert [number for number in promoted if number is not None] == best


def test_none_lets_every_trial_run() -> None:
    rule = schedulers.load("none").build(BUDGET)
    for number in range(5):
        assert run(rule, trial(number), [-float(number)] * 9) == ["continue"] * 9
