"""The front of score and costs: who is on it, which trials a scheduler may stop, what the sampler is told."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import cut_searches

from dmltune.errors import UserError
from dmltune.search import samplers, schedulers
from dmltune.search.budget import Plan
from dmltune.search.engine import Engine
from dmltune.search.engine_trial import EngineTrial
from dmltune.search.extrapolation import Estimate
from dmltune.search.front import Placed, front_of, hypervolume, knee_of, may_be_on_front
from dmltune.search.sampling import Proposer
from dmltune.search.scalarisation import scalarised, weights_of
from dmltune.search.simulated_space import simulated_space
from dmltune.search.simulation import Simulated, simulate

levels = st.integers(0, 4)
points = st.lists(st.tuples(levels, levels, levels), max_size=12)
SPACE = {
    "width": {"int": [8, 1024], "log": True},
    "rate": {"float": [-4.0, -1.0]},
    "decay": {"float": [0, 1]},
}


def placed(rows: list[tuple[int, int, int]]) -> list[Placed]:
    return [Placed(number, float(score), (a, b)) for number, (score, a, b) in enumerate(rows)]


@given(points)
def test_the_front_are_those_that_none_dominates(rows: list[tuple[int, int, int]]) -> None:
    def dominates(a: Placed, b: Placed) -> bool:
        as_good = a.score >= b.score and a.costs[0] <= b.costs[0] and a.costs[1] <= b.costs[1]
        same = (a.score, a.costs) == (b.score, b.costs)
        return as_good and (not same or a.number < b.number)

    every = placed(rows)
    expected = {b.number for b in every if not any(dominates(a, b) for a in every)}
    front = front_of(every)
    assert {each.number for each in front} == expected
    assert [each.score for each in front] == sorted((each.score for each in front), reverse=True)


@given(st.lists(st.tuples(levels, levels), max_size=8))
def test_the_hypervolume_is_the_area_of_the_union_of_rectangles(rows: list[tuple[int, int]]) -> None:
    cells = itertools.product(range(4), range(5))  # [s, s + 1] × [c, c + 1], of scores above 0, costs below 5
    area = sum(any(score >= s + 1 and cost <= c for score, cost in rows) for s, c in cells)
    assert hypervolume([(float(s), float(c)) for s, c in rows], (0.0, 5.0)) == area


def test_the_knee_is_the_member_before_a_little_more_score_costs_much() -> None:
    bent = [
        Placed(0, 0.90, (100.0,)),
        Placed(1, 0.88, (4.0,)),
        Placed(2, 0.60, (2.0,)),
        Placed(3, 0.1, (1.0,)),
    ]
    knee = knee_of(bent)
    assert knee is not None
    assert knee.number == 1
    straight = [Placed(n, float(n), (10.0**n,)) for n in range(4)]
    assert knee_of(straight) is None
    # two costs that rise together: the cheapest is no knee for being best in both
    assert knee_of([Placed(n, float(n), (10.0**n, 10.0**n)) for n in range(4)]) is None
    assert knee_of(bent[:2]) is None


@given(points.filter(bool), st.integers(0, 50))
def test_a_trial_that_is_better_in_all_has_no_lower_value(
    rows: list[tuple[int, int, int]], seed: int
) -> None:
    estimates = {n: Estimate(row[0] / 4, 0.1) for n, row in enumerate(rows)}
    costs = {n: (1.0 + row[1], 1.0 + row[2]) for n, row in enumerate(rows)}
    values = scalarised(estimates, costs, weights_of(3, 0, seed))
    for a, b in itertools.permutations(range(len(rows)), 2):
        if rows[a][0] >= rows[b][0] and rows[a][1] <= rows[b][1] and rows[a][2] <= rows[b][2]:
            assert values[a].mean >= values[b].mean - 1e-12


def test_each_point_of_a_concave_front_is_the_best_for_some_weights() -> None:
    angles = np.linspace(0, math.pi / 2, 6)  # a weighted sum would find its ends alone
    estimates = {n: Estimate(1 - math.sin(a), 0.0) for n, a in enumerate(angles)}
    costs = {n: (math.exp(1 - math.cos(a)),) for n, a in enumerate(math.pi / 2 - angles)}
    best: set[int] = set()
    for proposal in range(200):
        values = scalarised(estimates, costs, weights_of(2, 1, proposal))
        best.add(max(values, key=lambda n: values[n].mean))
    assert best == set(estimates)


def test_a_failed_trial_without_costs_is_told_as_the_worst() -> None:
    estimates = {0: Estimate(0.5, 0.1), 1: Estimate(0.7, 0.1), 2: Estimate(0.5, 0.1)}
    values = scalarised(estimates, {0: (1.0,), 1: (2.0,)}, weights_of(2, 0, 3))
    assert values[2].mean == min(values[0].mean, values[1].mean)


def test_a_trial_competes_with_those_that_cost_no_more() -> None:
    def trial(number: int, score: float, size: float) -> EngineTrial:
        return EngineTrial(number, "search", {}, steps=[1], scores=[score], costs={"parameters": size})

    large = [trial(number, 0.8 + number / 100, 50.0) for number in range(6)]
    small = [trial(number, 0.1 + number / 100, 1.0) for number in range(6, 9)]
    trials = [*large, *small]
    on_front = [each.number for each in trials if may_be_on_front(each, trials, ["parameters"])]
    assert on_front == [3, 4, 5, 8]  # ⌈9/3⌉ of all, and ⌈3/3⌉ of the small ones
    unknown = EngineTrial(9, "search", {}, steps=[1], scores=[0.9])
    assert not may_be_on_front(unknown, trials, ["parameters"])


# ---- whole searches


def size(values: dict[str, Any]) -> float:
    return math.log(values["width"] / 8) / math.log(128)  # 0 … 1


def final(values: dict[str, Any]) -> float:
    """Wider is better with less and less gain, and wants a lower rate; without `far` it is the front."""
    far = 0.15 * (values["rate"] + 2 + size(values)) ** 2 + 0.25 * (values["decay"] - 0.3) ** 2
    return 0.8 * (1 - math.exp(-3 * size(values))) / (1 - math.exp(-3)) - far


def curve(values: dict[str, Any], seed: int) -> tuple[list[float], float]:
    noise = np.random.default_rng([seed, values["width"]]).normal(0, 0.004)
    return [final(values) * (1 - math.exp(-step / 3)) + noise for step in range(1, 10)], 1.0


def searched(sampler: str, seed: int, scheduler: str = "asha", trials: int = 24) -> Simulated:
    return simulate(
        SPACE, curve, sampler=sampler, scheduler=scheduler, trials=trials, max_steps=9, seed=seed,
        against={"parameters": lambda values: float(values["width"])},
    )  # fmt: skip


def dominated(found: Simulated) -> float:
    return hypervolume([(final(values), size(values)) for values in found.front], (0.0, 1.1))


def test_a_search_finds_more_of_the_front_than_random_points() -> None:
    ours, random = ([dominated(searched(name, seed)) for seed in range(4)] for name in ("auto", "random"))
    assert np.mean(ours) > 1.03 * np.mean(random)


def test_early_stopping_leaves_the_front_as_it_is() -> None:
    for scheduler in ("asha", "promote", "median"):
        stopping, whole = (searched("random", 0, name, trials=30) for name in (scheduler, "none"))
        assert any(trial.state == "pruned" for trial in stopping.trials.values())
        assert dominated(stopping) > 0.97 * dominated(whole)


def test_the_winner_is_on_the_front_and_there_is_none_without_costs() -> None:
    found = searched("random", 1)
    assert found.front[0] == found.winner
    sizes = [size(values) for values in found.front]
    assert sizes == sorted(sizes, reverse=True)
    assert simulate(SPACE, curve, sampler="random", trials=4, max_steps=9).front == []
    with pytest.raises(UserError, match=r"against must name a function for each cost; got 'parameters'"):
        simulate(SPACE, curve, trials=4, max_steps=9, against=["parameters"])


def test_a_search_that_is_built_again_proposes_the_same() -> None:
    space = simulated_space(SPACE)

    def make(attributes: Mapping[str, Any]) -> Engine:
        proposer = Proposer(space, lambda seed: samplers.load("gp").build(12, seed), "max", 0)
        rule = schedulers.load("promote").build(schedulers.Budget(9, 1))
        return Engine(Plan(points=9, repeats=2, against=("parameters",)), rule, proposer, attributes)

    def scores_of(trial: EngineTrial) -> list[float]:
        return curve(dict(trial.values), trial.seed)[0]

    def prepare(engine: Engine, trial: EngineTrial) -> None:
        engine.note_costs(trial.number, {"parameters": float(trial.values["width"])})

    undisturbed, cut = (cut_searches.run(make, scores_of, cut, prepare) for cut in (False, True))
    assert cut == undisturbed
    assert len({row[2] for row in cut}) > 1
