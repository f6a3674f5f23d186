"""Cheap fidelities: measured on the first points, trusted or switched off, not mixed with full scores."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats
from support import cut_searches

from dmltune.errors import UserError
from dmltune.experiment.fidelity import Fidelity
from dmltune.search import samplers, schedulers
from dmltune.search.budget import Plan
from dmltune.search.cheap_estimates import estimates_of_cheap
from dmltune.search.engine import Engine
from dmltune.search.engine_trial import EngineTrial
from dmltune.search.extrapolation import Estimate
from dmltune.search.rank_correlation import interval, spearman
from dmltune.search.sampling import Proposer
from dmltune.search.screening import Pair, judged, key_of, score_of
from dmltune.search.simulated_space import simulated_space
from dmltune.search.simulation import Simulated, simulate

SPACE: dict[str, Any] = {f"x{i}": {"float": [0.0, 1.0]} for i in range(4)} | {
    "kind": {"choice": ["a", "b", "c"]}
}
BEST = np.array([0.3, 0.6, 0.2, 0.75])
CHEAP = {"data.size": 16, "cost": 0.1}


# ---- the rank correlation


def test_the_correlation_is_spearmans_with_ties_and_failures() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        x, y = rng.integers(0, 5, (2, 7)).astype(float)
        assert spearman(x, y) == pytest.approx(stats.spearmanr(x, y).statistic)
    assert spearman([-math.inf, 1.0, 2.0, -math.inf], [-math.inf, 3.0, 4.0, -math.inf]) == 1
    assert spearman([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]) == 0


@pytest.mark.parametrize("pairs", [4, 5, 6])
def test_the_interval_is_above_0_when_the_permutation_test_says_so(pairs: int) -> None:
    orders = [spearman(range(pairs), order) for order in itertools.permutations(range(pairs))]
    for correlation in sorted(set(orders))[-4:]:
        chance = np.mean([each >= correlation - 1e-9 for each in orders])
        if abs(chance - 0.05) > 0.004:  # the sampling error of the interval
            assert (interval(correlation, pairs)[0] > 0) == (chance < 0.05)


def test_the_interval_covers_the_true_correlation_in_90_percent() -> None:
    rng, rho, inside = np.random.default_rng(1), 0.6, 0
    for _ in range(300):
        x, e = rng.normal(size=(2, 5))
        low, high = interval(round(spearman(x, rho * x + math.sqrt(1 - rho**2) * e), 9), 5)
        inside += low <= rho <= high
    assert inside / 300 >= 0.88  # with few pairs r takes few values, and it is more


def test_a_fidelity_is_trusted_when_its_correlation_is_high_and_shown() -> None:
    def of(cheap: Sequence[float], threshold: float = 0.6) -> tuple[bool, bool]:
        trust = judged([Pair(float(full), score) for full, score in enumerate(cheap)], threshold)
        return trust.trusted, trust.low > 0

    assert of([0.1, 0.2, 0.3, 0.4]) == (True, True)
    assert of([0.1, 0.2, 0.4, 0.3]) == (False, False)  # r = 0.8, which four pairs have by chance in 1 of 6
    assert of([0.1, 0.2, 0.3, 0.4, 0.6, 0.5, 0.7, 0.8]) == (True, True)
    assert of([0.1, 0.3, 0.2, 0.4, 0.6, 0.5, 0.8, 0.7], threshold=0.99) == (False, True)
    assert of([0.4, 0.3, 0.2, 0.1, 0.0, -0.1]) == (False, False)


def test_the_score_of_the_untrained_network_does_not_hide_the_order() -> None:
    """On small images it may be the best of all, and it is the same in all trials."""
    trials = [EngineTrial(n, "cheap", {"x": n}, state="complete", untrained=0.9) for n in range(3)]
    for trial in trials:
        trial.add(5, 0.1 * trial.number)
    assert [score_of(trial) for trial in trials] == [0.0, 0.1, 0.2]
    assert score_of(EngineTrial(3, "cheap", {}, state="failed", steps=[1], scores=[0.5])) == -math.inf


# ---- what the sampler is told


def point(number: int, role: Any, value: float, score: float | None, state: Any = "complete") -> EngineTrial:
    scores = [] if score is None else [score]
    return EngineTrial(number, role, {"x": value}, state=state, steps=[1] * len(scores), scores=scores)


def test_a_cheap_score_is_told_as_the_full_score_that_a_line_predicts() -> None:
    rng, noise = np.random.default_rng(0), 0.02
    cheap = rng.uniform(0.2, 0.6, 60)
    full = 0.3 + 0.8 * cheap + rng.normal(0, noise, 60)
    twins = [point(n, "cheap", n, cheap[n]) for n in range(60)]
    points = [point(100 + n, "search", n, full[n]) for n in range(60)]
    alone = [point(200, "cheap", 0.5, 0.5), point(201, "cheap", 0.6, None, "failed")]
    alone.append(point(202, "cheap", 0.7, None, "running"))
    known = {trial.number: Estimate(trial.score or 0.0, 0.0) for trial in points}
    told = estimates_of_cheap([*twins, *points, *alone], known, 0.0)
    assert set(told) == {200, 201}  # those with a full training are told by it
    slope, offset, *_ = stats.linregress(cheap, full)
    assert told[200].mean == pytest.approx(offset + 0.5 * slope, abs=0.005)
    assert told[200].sd == pytest.approx(noise, rel=0.5)
    assert told[201].mean == min(full)


# ---- whole searches


def final(values: Mapping[str, Any]) -> float:
    x, kind = np.array([values[f"x{i}"] for i in range(4)]), "abc".index(values["kind"])
    return float(1 - np.abs(x - np.roll(BEST, kind)).sum() / 2 - 0.1 * kind)


def searched(seed: int, fidelity: Mapping[str, Any] | None, sign: int = 1, **options: Any) -> Simulated:
    """`sign` −1: the cheap scores are in the opposite order."""

    def curve(
        values: dict[str, Any], seed: int, fidelity: Mapping[str, Any] | None = None
    ) -> tuple[list[float], float]:
        rng = np.random.default_rng([seed, int(1e6 * values["x0"])])
        if fidelity is None:
            return [(final(values) + rng.normal(0, 0.005)) * step / 3 for step in (1, 2, 3)], 1.0
        assert fidelity == {"data.size": 16}
        return [7 + sign * final(values) + rng.normal(0, 0.03)] * 3, 0.1  # on another scale, and higher

    return simulate(
        SPACE, curve, max_steps=3, seed=seed, fidelity=fidelity,
        **{"trials": 40, "sampler": "random", "scheduler": "none", "repeat_share": 0.0, **options},
    )  # fmt: skip


def regrets(found: Simulated) -> list[tuple[float, float]]:
    """Return when complete points ended, and the regret of the best one until then."""
    ends = {number: time for time, number, *_ in found.events}
    points = sorted((ends[t.number], 1 - final(t.values)) for t in found.trials.values() if t.is_point)
    return [
        (time, min(regret for _, regret in points[: place + 1])) for place, (time, _) in enumerate(points)
    ]


def mean_regret(runs: Sequence[Sequence[tuple[float, float]]], time: float) -> float:
    return float(np.mean([min([r for at, r in run if at <= time], default=2.0) for run in runs]))


def test_a_trusted_fidelity_saves_a_third_of_the_cost_to_the_same_regret() -> None:
    full, cheap = ([searched(seed, given) for seed in range(8)] for given in (None, CHEAP))
    assert all(found.fidelity and found.fidelity.trusted for found in cheap)
    end = max(found.seconds for found in full)
    reached = mean_regret([regrets(found) for found in full], end)
    curves = [regrets(found) for found in cheap]
    assert mean_regret(curves, 0.7 * end) < reached
    for found in cheap:
        units = sum(0.1 if trial.role == "cheap" else 1.0 for trial in found.trials.values())
        assert 39 <= units <= 41
        assert found.seconds < 1.1 * end


def test_an_opposite_fidelity_is_switched_off_and_costs_its_measuring() -> None:
    for seed in range(4):
        full, found = searched(seed, None, workers=1), searched(seed, CHEAP, sign=-1, workers=1)
        assert found.fidelity is not None
        assert not found.fidelity.trusted
        twins = [trial for trial in found.trials.values() if trial.role == "cheap"]
        assert len(twins) == 6
        points = [trial.values for trial in found.trials.values() if trial.is_point]
        assert points == [trial.values for trial in full.trials.values()][: len(points)]
        assert len(points) == 40  # 39.4 were left, and a point that is begun is finished
        assert found.seconds == pytest.approx(full.seconds + 6 * 0.3)


@pytest.mark.parametrize("scheduler", ["asha", "promote"])
def test_cheap_scores_do_not_mix_with_full_ones(scheduler: str) -> None:
    found = searched(0, CHEAP, scheduler=scheduler, repeat_share=0.2, validate_every=1)
    roles = {number: trial.role for number, trial in found.trials.items()}
    assert list(roles.values()).count("cheap") > 20
    assert found.verdict is not None
    assert all(roles[number] == "search" for number in found.verdict.winner_set)
    assert found.verdict.noise is not None
    assert found.verdict.noise < 0.05
    assert all(trial.state == "complete" for trial in found.trials.values() if trial.role == "cheap")
    first = [trial for trial in found.trials.values() if trial.is_point][:6]
    assert all(trial.state == "complete" for trial in first)  # they measure the fidelity
    assert any(trial.state == "pruned" for trial in found.trials.values())
    seen = found.best_at(found.seconds)
    assert seen in [dict(trial.values) for trial in found.trials.values() if trial.is_point]


@pytest.mark.parametrize("sign", [1, -1])
def test_a_search_that_is_built_again_does_the_same(sign: int) -> None:
    space = simulated_space(SPACE)

    def make(attributes: Mapping[str, Any]) -> Engine:
        proposer = Proposer(space, lambda seed: samplers.load("tpe").build(20, seed), "max", 0)
        rule = schedulers.load("promote").build(schedulers.Budget(3, 1))
        fidelity = Fidelity({"data.size": 16}, trials=5, keep=3, cost=0.2)
        return Engine(Plan(points=14, repeats=2, fidelity=fidelity), rule, proposer, attributes)

    def scores_of(trial: EngineTrial) -> list[float]:
        score = final(trial.values)
        return [sign * score] if trial.role == "cheap" else [score * step / 3 for step in (1, 2, 3)]

    undisturbed, cut = (cut_searches.run(make, scores_of, cut, lambda *_: None) for cut in (False, True))
    assert cut == undisturbed
    assert [row[0] for row in cut].count("cheap") == (5 if sign < 0 else pytest.approx(19, abs=8))


def test_a_failed_cheap_training_is_the_last_in_the_order() -> None:
    engine = Engine(
        Plan(points=20, fidelity=Fidelity({"data.size": 16}, trials=4, keep=2, cost=0.1)),
        schedulers.load("none").build(schedulers.Budget(1, 1)),
        Proposer(simulated_space(SPACE), lambda seed: samplers.load("random").build(9, seed), "max", 0),
    )
    assert engine.screening is not None
    for number in range(4):
        engine.add(replace(point(number, "search", number, 0.1 * number)))
        state: Any = "failed" if number == 0 else "complete"
        engine.add(point(10 + number, "cheap", number, None if number == 0 else number, state))
    trust = engine.trust()
    assert trust is not None
    assert trust.correlation == 1
    engine.add(point(20, "cheap", 8.0, None, "failed"))
    engine.add(point(21, "cheap", 9.0, 0.1))
    promising = engine.screening.promising(engine.trials.values())
    assert promising is not None
    assert promising.number == 21


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("trials", [14, 17])
def test_the_best_cheap_points_are_trained_in_full_before_the_budget_ends(workers: int, trials: int) -> None:
    found = searched(3, {**CHEAP, "trials": 4, "keep": 4}, trials=trials, workers=workers, validate_every=3)
    assert found.fidelity is not None
    assert found.fidelity.trusted
    every = found.trials.values()
    full = {key_of(trial.values): trial.number for trial in every if trial.is_point}
    own = [t for t in every if t.role == "cheap" and full.get(key_of(t.values), 99) > t.number]
    chosen = [trial for trial in own if key_of(trial.values) in full]
    assert len(chosen) >= len(own) // 4 >= 2
    assert max(own, key=score_of) in chosen
    units = sum(0.1 if trial.role == "cheap" else 1.0 for trial in every)
    assert trials - 1 < units < trials + 1


def test_a_small_space_ends_with_its_best_point_trained_in_full() -> None:
    space = {"n": {"int": [0, 11]}}

    def curve(values: dict[str, Any], seed: int, fidelity: Any = None) -> tuple[list[float], float]:
        return [float(values["n"])], 1.0

    found = simulate(
        space, curve, sampler="random", trials=30, workers=1, max_steps=1, repeat_share=0.0,
        fidelity={**CHEAP, "trials": 5, "keep": 3},
    )  # fmt: skip
    assert found.winner == {"n": 11}
    assert len({trial.values["n"] for trial in found.trials.values()}) == 12


def test_a_wrong_fidelity_of_a_simulation_is_told() -> None:
    with pytest.raises(
        UserError, match=r"simulate: unknown key 'max_step' in fidelity; did you mean 'max_steps'"
    ):
        searched(0, {"max_step": 1})
