"""The contract of every scheduler: any file of dmltune/search/schedulers is found and tested."""

from __future__ import annotations

import gc
import random
import time
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.rule_reports import ALL_STEPS, BUDGET, HALVING, run, trial

from dmltune.core import components
from dmltune.errors import UserError
from dmltune.experiment import load_experiment
from dmltune.search import schedulers
from dmltune.search.engine_trial import EngineTrial, TrialRole
from dmltune.search.schedulers import Rule

NAMES = components.names(schedulers.PACKAGE)


# ---- all of them


@pytest.mark.parametrize("name", NAMES)
def test_the_best_trial_reaches_its_end_and_a_protected_one_without_a_pause(name: str) -> None:
    rule = schedulers.load(name).build(BUDGET)
    trials = [trial(number) for number in range(21)]
    levels = [0.5] * 20 + [0.99]
    for each, level in zip(trials, levels, strict=True):
        run(rule, each, [level] * 9)
    while (number := rule.promote(closing=True)) is not None:
        assert trials[number].state == "paused"
        trials[number].state = "running"
        run(rule, trials[number], [levels[number]] * 9)
    assert trials[20].state == "complete"
    roles: tuple[TrialRole, ...] = ("reference", "baseline", "repeat")
    for number, role in enumerate(roles, start=21):
        assert run(rule, trial(number, role, repeats=0), [0.01] * 9) == ["continue"] * 9


@pytest.mark.parametrize("name", NAMES)
def test_a_failed_trial_leaves_without_an_error_and_is_not_promoted(name: str) -> None:
    rule = schedulers.load(name).build(BUDGET)
    rule.end(7)  # it failed before its first validation
    for number in range(9):
        run(rule, trial(number), [0.1 * number] * 9)
    rule.end(8)
    while (number := rule.promote(closing=True)) is not None:
        assert number != 8
    assert run(rule, trial(9), [0.55]) != ["stop"]


@pytest.mark.parametrize("name", NAMES)
def test_its_parameters_have_defaults_and_a_yaml_may_name_it(name: str) -> None:
    cls = components.find(schedulers.PACKAGE, name)
    assert cls.__doc__
    assert all(p.default is not p.empty for p in components.parameters(cls).values())
    assert load_experiment("glyphs-ccp", [f"scheduler={name}"]).scheduler.name == name


def test_an_unknown_scheduler_or_parameter_is_an_error_with_the_nearest_name() -> None:
    with pytest.raises(UserError, match="did you mean 'asha'"):
        load_experiment("glyphs-ccp", ["scheduler=ashaa"])
    with pytest.raises(UserError, match="at least 2"):
        load_experiment("glyphs-ccp", ["scheduler={name: asha, reduction: 1}"])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.timeout(60)
def test_ten_thousand_trials_are_fast_and_the_last_ones_as_fast_as_the_first(name: str) -> None:
    rule, numbers, times = schedulers.load(name).build(BUDGET), random.Random(0), []
    trials: dict[int, EngineTrial] = {}
    gc.disable()  # a collection goes through all that the process has imported, a second when it strikes
    try:
        for number in range(10_000):
            if number % 2_500 == 0:
                times.append(time.process_time())
            level = numbers.random()
            trials[number] = trial(number)
            run(rule, trials[number], [level + 0.1 * numbers.random() for _ in ALL_STEPS])
            if (promoted := rule.promote()) is not None:
                trials[promoted].state = "running"
                run(rule, trials[promoted], [level] * 9)
        times.append(time.process_time())
    finally:
        gc.enable()
    assert times[-1] - times[0] < 10
    assert times[4] - times[3] < 5 * (times[1] - times[0]) + 0.2


# ---- restored after a cut


@dataclass
class Session:
    """Three workers on random curves: every event is one validation, or the start or promotion of a trial."""

    rule: Rule
    curves: dict[int, tuple[list[float], list[int]]]
    trials: dict[int, EngineTrial] = field(default_factory=dict)
    log: list[tuple[int, str]] = field(default_factory=list)

    def event(self, pick: int) -> None:
        running = [number for number, each in self.trials.items() if each.state == "running"]
        if len(running) < 3 and (started := self._start()) is not None:
            return self.log.append((started, "started"))
        if not running:
            return None
        each = self.trials[running[pick % len(running)]]
        scores, projections = self.curves[each.number]
        at = len(each.steps)
        each.add(ALL_STEPS[at], scores[at], projections[at])
        decision = self.rule.report(each)
        over = at + 1 == len(ALL_STEPS)
        each.state = {"pause": "paused", "stop": "pruned"}.get(decision, "complete" if over else "running")
        if each.state in ("complete", "pruned"):
            self.rule.end(each.number)
        return self.log.append((each.number, decision))

    def _start(self) -> int | None:
        new = len(self.trials)
        number = self.rule.promote(closing=new >= len(self.curves))
        if number is not None:
            self.trials[number].state = "running"
        elif new < len(self.curves):
            role: TrialRole = {0: "reference", 1: "baseline", 2: "repeat"}.get(new, "search")
            self.trials[number := new] = EngineTrial(new, role, {}, repeats=0 if role == "repeat" else None)
        return number

    def restored(self, rule: Rule) -> Session:
        """The next session: copies of all trials in the order of their numbers, and a new rule."""
        trials = {
            n: replace(t, steps=list(t.steps), scores=list(t.scores), projections=list(t.projections))
            for n, t in self.trials.items()
        }
        for each in trials.values():
            rule.restore(each)
        return Session(rule, self.curves, trials, list(self.log))


def random_curves(numbers: random.Random) -> dict[int, tuple[list[float], list[int]]]:
    """Scores with ties and dips, and counts of ended projections; some trials have none."""
    curves: dict[int, tuple[list[float], list[int]]] = {}
    for number in range(numbers.randint(5, 25)):
        rate, level = numbers.choice([0.0, 0.3, 0.6]), numbers.randint(0, 4)
        new = [int(numbers.random() < rate) for _ in ALL_STEPS]
        scores = [(level + numbers.randint(0, 2)) / 8 for _ in ALL_STEPS]
        curves[number] = (scores, [sum(new[: i + 1]) for i in range(len(new))])
    return curves


VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in NAMES),
    *((name, {"unit": "projections", "reduction": 2}) for name in HALVING),
    ("median", {"others": 2}),
]


@pytest.mark.parametrize(("name", "parameters"), VARIANTS)
@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 150))
def test_a_rule_restored_at_any_moment_decides_as_one_that_saw_everything(
    name: str, parameters: dict[str, Any], seed: int, cut: int
) -> None:
    numbers = random.Random(seed)
    scheduler = schedulers.load(name, **parameters)
    whole = Session(scheduler.build(BUDGET), random_curves(numbers))
    picks = [numbers.randrange(3) for _ in range(cut + 100)]
    for pick in picks[:cut]:
        whole.event(pick)
    resumed = whole.restored(scheduler.build(BUDGET))
    for pick in picks[cut:]:
        whole.event(pick)
        resumed.event(pick)
    assert resumed.log == whole.log
