"""The posterior of a chosen candidate's true mean, and its parts, against independent oracles."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from dmltune.search import chosen as chosen_module
from dmltune.search import mean_shapes
from dmltune.search.beliefs import beliefs
from dmltune.search.chosen import Chosen
from dmltune.search.design import design_of
from dmltune.search.mean_shapes import SHAPES, Shapes
from dmltune.search.mixtures import Mixture, grouped, plus
from dmltune.search.own_noise import NoiseModel, Reduced
from dmltune.search.score_table import ScoreTable
from dmltune.search.winners import judge


def one(scores: list[float]) -> Reduced:
    values = np.array(scores)
    return Reduced(
        np.array([float(len(values))]),
        np.array([values.mean()]),
        np.array([((values - values.mean()) ** 2).sum()]),
    )


def searched(means: np.ndarray, sds: np.ndarray, rng: np.random.Generator) -> ScoreTable:
    """Return a search in which the seven candidates with the highest first scores were repeated twice."""
    table = ScoreTable()
    first = rng.normal(means, sds)
    for i, score in enumerate(first):
        table.add(i, (0, 0), float(score))
    for i in np.argsort(-first)[:7]:
        for seed in (1, 2):
            table.add(int(i), (seed, 0), float(rng.normal(means[i], sds[i])))
    return table


@pytest.mark.parametrize("scores", [[0.7], [0.2, 1.1], [3.0, -1.0, 0.5, 0.9]])
@pytest.mark.parametrize(("degrees", "slope"), [(4.0, 0.0), (2.5, 0.6), (np.inf, 0.0), (np.inf, 0.6)])
def test_the_likelihood_of_a_mean_is_the_integral_over_its_noise(
    scores: list[float], degrees: float, slope: float
) -> None:
    noise = NoiseModel(0.8, degrees, slope, top=0.5)

    def density(mean: float) -> float:
        s = np.hypot(0.8, slope * max(0.5 - mean, 0.0))
        if np.isinf(degrees):
            return float(stats.norm.pdf(scores, mean, s).prod())
        return float(
            integrate.quad(
                lambda x: (
                    stats.norm.pdf(scores, mean, s * np.sqrt(degrees / x)).prod() * stats.chi2.pdf(x, degrees)
                ),
                0,
                np.inf,
                limit=200,
            )[0]
        )

    centers = np.array([-1.4, 0.1, 0.9])
    for center in centers:
        edges = np.array([center - 1e-4, center + 1e-4])
        value, scale = one(scores).in_cells(edges, noise)
        assert float(value[0, 0] * np.exp(scale[0])) == pytest.approx(density(center), rel=1e-4)


def test_the_evidence_is_the_integral_over_the_mean() -> None:
    noise = NoiseModel(0.8, 4.0, 0.0, top=0.0)
    edges = np.linspace(-60.0, 60.0, 4001)
    value, scale = one([0.3, 1.9, 0.4]).in_cells(edges, noise)
    total = float((value[0] * np.diff(edges)).sum() * np.exp(scale[0]))
    assert np.exp(one([0.3, 1.9, 0.4]).evidence(noise)) == pytest.approx(total, rel=1e-4)


def test_shapes_have_one_quartile_range_and_each_quantile_where_it_says() -> None:
    p = np.array([0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99])
    for cumulated, quantile in SHAPES:
        np.testing.assert_allclose(cumulated(quantile(p)), p, atol=1e-9)
        assert quantile(p[4]) - quantile(p[2]) == pytest.approx(2 * stats.norm.ppf(0.75))


def test_a_population_has_as_many_scores_above_the_anchor_as_it_says() -> None:
    shapes = Shapes(anchor=3.0, above=30, below=30, widest=60.0)
    edges = np.concatenate([[-1e5], np.linspace(-300, 300, 6001), [1e5]])
    functions = shapes.cumulated(edges, 1.0)
    assert len(functions) == len(shapes.log_prior)
    failed = stats.norm.cdf(3.0 - (edges[1:] + edges[:-1]) / 2)
    chances = functions[:, 0] + np.diff(functions, axis=1) @ failed
    sd = np.sqrt(0.25 / 60)
    assert abs(chances.mean() - 0.5) < 0.02
    assert np.abs(chances - 0.5).max() < 4 * sd


def test_sums_of_mixtures_and_joined_parts_keep_mean_and_variance() -> None:
    rng = np.random.default_rng(0)
    a = Mixture(rng.dirichlet(np.ones(30)), rng.normal(size=30), rng.gamma(1.0, size=30))
    b = Mixture(rng.dirichlet(np.ones(5)), rng.normal(size=5), rng.gamma(1.0, size=5))

    def variance(m: Mixture) -> float:
        return float(m.weights @ (m.variances + m.means**2)) - m.mean**2

    few, both = grouped(a, 6, a.means), plus(a, b)
    assert len(few.weights) <= 6
    assert (few.mean, variance(few)) == pytest.approx((a.mean, variance(a)))
    assert (both.mean, variance(both)) == pytest.approx((a.mean + b.mean, variance(a) + variance(b)))


def test_with_a_normal_population_and_equal_noise_it_is_the_belief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two independent ways to one posterior: on an axis of means, and in closed form."""
    monkeypatch.setattr("dmltune.search.beliefs._WIDE", 1.0)
    monkeypatch.setattr(mean_shapes, "SHAPES", SHAPES[:1])
    monkeypatch.setattr(chosen_module, "_DEGREES", (np.inf,))
    monkeypatch.setattr(chosen_module, "_SLOPES", (0.0,))
    for seed in range(6):
        rng = np.random.default_rng(seed)
        design = design_of(searched(2 * rng.normal(size=40), np.ones(40), rng))
        belief = beliefs(design)
        assert belief is not None
        index = int(np.argmax(belief.expected))
        expected, found = belief.mean_of(index), Chosen(design, belief, index).mean()
        width = expected.quantile(0.975) - expected.quantile(0.025)
        for probability in (0.025, 0.5, 0.975):
            assert abs(found.quantile(probability) - expected.quantile(probability)) < 0.1 * width


def test_a_limit_of_the_true_means_and_unequal_noise_are_learned() -> None:
    """Many configurations near a limit, some of them noisy: the interval of one normal is too high there."""
    rng = np.random.default_rng(4)
    hits, before, count = 0, 0, 150
    for _ in range(count):
        means = -rng.pareto(1.0, size=58)
        sds = np.exp(rng.uniform(np.log(0.2), np.log(2.0), size=58)) * 0.6
        table = searched(means, sds, rng)
        verdict, belief = judge(table), beliefs(design_of(table))
        assert verdict is not None
        assert verdict.corrected is not None
        assert belief is not None
        truth = means[verdict.winner]
        old = belief.mean_of(table.candidates.index(verdict.winner))
        hits += verdict.corrected.low <= truth <= verdict.corrected.high
        before += old.quantile(0.025) <= truth <= old.quantile(0.975)
    assert hits / count >= 0.91
    assert before < hits


def test_a_known_noise_and_a_few_or_many_candidates_have_an_interval() -> None:
    rng = np.random.default_rng(5)
    for number in (2, 3, 9, 400):
        table = searched(rng.normal(size=number), np.ones(number), rng)
        for noise in (None, 1.0):
            verdict = judge(table, noise=noise)
            assert verdict is not None
            assert verdict.corrected is not None
            assert -4 < verdict.corrected.low < verdict.corrected.mean < verdict.corrected.high < 7


def test_a_long_lead_over_a_baseline_with_one_score_is_not_noise() -> None:
    """Scores of a demo run: noise of 2.8 points, a winner at 24, a baseline at 10."""
    rows = {0: [14.7, 15.6, 19.8], 1: [9.9], 5: [20.2, 18.2], 8: [19.7], 10: [27.0, 21.5]}
    table = ScoreTable(baseline=1)
    for candidate, scores in rows.items():
        for seed, score in enumerate(scores):
            table.add(candidate, (seed, 0), score)
    verdict = judge(table)
    assert verdict is not None
    assert verdict.lead is not None
    assert verdict.lead_is_noise is False
    assert 0 < verdict.lead.low < 8 < verdict.lead.high < 22
