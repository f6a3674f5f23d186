"""The additive ANOVA against Sobol's indices, a dense posterior and the restricted likelihood."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dmltune.search.additive_anova import (
    EVENLY,
    Effect,
    _posterior,
    choice_effect,
    decompose,
    number_effect,
)

Floats = NDArray[np.float64]
STEPS = np.linspace(0.0, 1.0, 5)


def always(count: int) -> NDArray[np.bool_]:
    return np.ones(count, dtype=np.bool_)


@pytest.mark.parametrize("grid", [EVENLY, STEPS, np.array([0.0, 1.0])])
def test_the_functions_of_a_number_are_orthonormal_with_mean_0_on_its_values(grid: Floats) -> None:
    effect = number_effect(grid, always(len(grid)), grid)
    basis = effect.columns / np.sqrt(effect.weights)
    assert len(effect.weights) == min(4, len(grid) - 1)
    np.testing.assert_allclose(basis.T @ basis / len(grid), np.eye(len(effect.weights)), atol=1e-9)
    np.testing.assert_allclose(basis.mean(axis=0), 0, atol=1e-9)


@pytest.mark.parametrize("choices", [1, 2, 5])
def test_the_contrasts_of_a_choice_are_orthonormal_with_mean_0(choices: int) -> None:
    basis = choice_effect(np.arange(choices), always(choices), choices).columns
    np.testing.assert_allclose(basis.T @ basis / choices, np.eye(choices - 1), atol=1e-9)
    np.testing.assert_allclose(basis.sum(axis=0), 0, atol=1e-9)


def test_many_trials_give_sobols_first_indices_and_the_variance_of_the_noise() -> None:
    """z = 3 u + 2 v² + (0, 1, 5)[c] + 2 a (w − ½) + noise; a is 1 with a choice of ⅓, and x has no effect."""
    numbers = np.random.default_rng(0)
    u, v, w, x = numbers.random((4, 6000))
    c = numbers.integers(3, size=6000)
    has = c == 1
    z = 3 * u + 2 * v**2 + np.array([0.0, 1.0, 5.0])[c] + 2 * has * (w - 0.5) + numbers.normal(size=6000)
    effects = [
        number_effect(u, always(6000)),
        number_effect(v, always(6000)),
        choice_effect(c, always(6000), 3),
        number_effect(w, has),
        number_effect(x, always(6000)),
    ]
    found = decompose(z, effects)
    expected = [9 / 12, 4 * (1 / 5 - 1 / 9), np.var([0.0, 1.0, 5.0]), 4 / 12 / 3, 0.0]
    np.testing.assert_allclose(found.parts, expected, rtol=0.12, atol=0.005)
    assert found.rest == pytest.approx(1.0, rel=0.06)


def small_problem(noise: float = 0.4) -> tuple[Floats, list[Effect], Floats]:
    numbers = np.random.default_rng(1)
    u, v = numbers.random((2, 40))
    spread = np.where(numbers.random(40) < 0.3, 0.5, 0.0)
    z = np.sin(3 * u) + numbers.normal(size=40) * np.sqrt(noise**2 + spread**2)
    return z, [number_effect(u, always(40)), number_effect(v, always(40))], spread


def test_the_posterior_is_that_of_the_dense_formula_with_a_constant_of_almost_infinite_variance() -> None:
    z, effects, spread = small_problem()
    columns = np.column_stack([effect.columns for effect in effects])
    tau, sigma = np.repeat([0.5, 0.02], 4), 0.2
    beta, variance, residual, _ = _posterior(z, columns, tau, sigma, spread**2)
    # β | z of a joint normal distribution: prior covariance P, covariance of z = X P Xᵀ + D
    design = np.column_stack([np.ones(40), columns])
    prior = np.diag([1e7, *tau])
    gain = prior @ design.T @ np.linalg.inv(design @ prior @ design.T + np.diag(sigma + spread**2))
    covariance = prior - gain @ design @ prior
    np.testing.assert_allclose(beta, (gain @ z)[1:], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(variance, np.diag(covariance)[1:], rtol=1e-4)
    np.testing.assert_allclose(residual, z - design @ gain @ z, atol=1e-4)


def restricted_likelihood(z: Floats, effects: list[Effect], tau: Floats, sigma: float) -> float:
    kernel = sum(t * e.columns @ e.columns.T for t, e in zip(tau, effects, strict=True))
    inverse = np.linalg.inv(kernel + sigma * np.eye(len(z)))
    total = float(inverse.sum())
    projected = inverse - np.outer(inverse.sum(1), inverse.sum(0)) / total
    return 0.5 * float(np.linalg.slogdet(inverse)[1] - np.log(total) - z @ projected @ z)


def test_the_variances_maximise_the_restricted_likelihood(monkeypatch: pytest.MonkeyPatch) -> None:
    """σ² is returned: with the best τ² for each, no other σ² is more likely."""
    monkeypatch.setattr("dmltune.search.additive_anova.TOLERANCE", 1e-9)
    monkeypatch.setattr("dmltune.search.additive_anova.ROUNDS", 5000)
    z, effects, _ = small_problem()
    sigma = decompose(z, effects[:1]).rest

    def most(other: float) -> float:
        lattice = np.geomspace(0.01, 30, 40)
        return max(restricted_likelihood(z, effects[:1], np.array([tau]), other) for tau in lattice)

    others = sigma * np.geomspace(0.6, 1.7, 21)
    assert others[np.argmax([most(other) for other in others])] == pytest.approx(sigma, rel=0.06)


def test_noise_alone_is_no_parameters_effect() -> None:
    numbers = np.random.default_rng(2)
    shares = []
    for _ in range(20):
        effects = [number_effect(u, always(60)) for u in numbers.random((6, 60))]
        found = decompose(numbers.normal(size=60), effects)
        shares.append(found.parts / (found.parts.sum() + found.rest))
    assert np.mean(shares) < 0.02
    assert np.mean(np.sum(shares, axis=1)) < 0.12


def test_an_uncertain_trial_counts_less() -> None:
    """Half of the scores are shuffled; known as uncertain, they leave the effect as it is."""
    numbers = np.random.default_rng(3)
    u = numbers.random(200)
    z = 4 * u + 0.3 * numbers.normal(size=200)
    z[100:] = numbers.permutation(z[100:]) + 5
    effect = [number_effect(u, always(200))]
    spread = np.where(np.arange(200) < 100, 0.0, 50.0)
    assert decompose(z, effect, spread).parts[0] == pytest.approx(16 / 12, rel=0.2)
    assert decompose(z, effect).parts[0] < 0.8 * 16 / 12


def test_equal_scores_and_parameters_without_a_choice_have_no_variance() -> None:
    none = decompose(np.ones(9), [number_effect(np.linspace(0, 1, 9), always(9))])
    assert (none.parts.tolist(), none.rest) == ([0.0], 0.0)
    single = decompose(np.arange(9.0), [choice_effect(np.zeros(9, dtype=np.int64), always(9), 1)])
    assert single.parts.tolist() == [0.0]
