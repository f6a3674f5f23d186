"""The Gaussian process against dense formulas, finite differences and Monte Carlo."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
import optuna
import pytest
from numpy.typing import NDArray
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from scipy.stats import multivariate_normal, norm
from threadpoolctl import threadpool_info, threadpool_limits

from dmltune.search.acquisition import (
    log_expected_improvement,
    log_expected_improvement_with_gradient,
    log_h,
    maximise,
)
from dmltune.search.gaussian_process import GaussianProcess
from dmltune.search.gp_sampler import OWN_ERROR, GpSampler, chosen, representative, standardised
from dmltune.search.unit_cube import UnitCube

Floats = NDArray[np.float64]
GROUPS = np.array([0, 1, 1, 2])
THETA = np.log([0.4, 0.8, 1.5, 1.3, 0.02, 1.0]) + np.array([0, 0, 0, 0, 0, 0.2])


def process(count: int = 15, seed: int = 0) -> GaussianProcess:
    rng = np.random.default_rng(seed)
    x_ND = rng.random((count, 4))
    return GaussianProcess(x_ND, rng.normal(size=count), rng.random(count) ** 2, GROUPS, THETA)


def slow_kernel(a: Floats, b: Floats) -> float:
    lengths = np.exp(THETA[:3])[GROUPS]
    r = math.sqrt(sum(((a - b) / lengths) ** 2))
    return math.exp(THETA[3]) * (1 + math.sqrt(5) * r + 5 * r * r / 3) * math.exp(-math.sqrt(5) * r)


def slow_matrix(x: Floats, z: Floats) -> Floats:
    return np.array([[slow_kernel(a, b) for b in z] for a in x])


def numeric_gradient(f: Callable[[Floats], float], x: Floats, step: float = 1e-5) -> Floats:
    return np.array([(f(x + step * e) - f(x - step * e)) / (2 * step) for e in np.eye(len(x))])


def test_the_likelihood_is_that_of_the_normal_density() -> None:
    gp = process()
    covariance = slow_matrix(gp.x_ND, gp.x_ND) + np.diag(gp.variance_N + math.exp(THETA[4]))
    expected = multivariate_normal(np.full(15, THETA[5]), covariance).logpdf(gp.y_N)
    assert gp.log_likelihood()[0] == pytest.approx(expected, rel=1e-6)


def test_the_gradient_of_the_likelihood_equals_finite_differences() -> None:
    gp = process()

    def value(theta: Floats) -> float:
        return GaussianProcess(gp.x_ND, gp.y_N, gp.variance_N, GROUPS, theta).log_likelihood()[0]

    np.testing.assert_allclose(gp.log_likelihood()[1], numeric_gradient(value, THETA), rtol=1e-5, atol=1e-6)


def test_predictions_are_those_of_the_conditional_normal_distribution() -> None:
    gp = process()
    z = np.random.default_rng(1).random((5, 4))
    k = slow_matrix(gp.x_ND, gp.x_ND) + np.diag(gp.variance_N + math.exp(THETA[4]))
    cross, inverse = slow_matrix(gp.x_ND, z), np.linalg.inv(k)
    mean, sd = gp.predict(z)
    np.testing.assert_allclose(mean, THETA[5] + cross.T @ inverse @ (gp.y_N - THETA[5]), rtol=1e-5)
    variance = np.diag(slow_matrix(z, z) - cross.T @ inverse @ cross)
    np.testing.assert_allclose(sd, np.sqrt(variance), rtol=1e-5)


def test_a_known_variance_is_that_of_an_average_of_repetitions() -> None:
    """n observations of variance v at one point say what their mean with the variance v/n says."""
    rng = np.random.default_rng(2)
    x_ND, y_NR = rng.random((6, 4)), rng.normal(size=(6, 4))
    theta = THETA.copy()
    theta[4] = -30.0  # no other noise
    each = GaussianProcess(np.repeat(x_ND, 4, 0), y_NR.ravel(), np.full(24, 0.4), GROUPS, theta)
    averaged = GaussianProcess(x_ND, y_NR.mean(1), np.full(6, 0.1), GROUPS, theta)
    z = rng.random((5, 4))
    np.testing.assert_allclose(each.predict(z), averaged.predict(z), rtol=1e-5)


def test_the_fit_finds_which_parameter_matters_and_how_noisy_values_are() -> None:
    rng = np.random.default_rng(3)
    x_ND = rng.random((80, 2))
    y_N = np.sin(6 * x_ND[:, 0]) / 0.7 + 0.3 * rng.normal(size=80)
    gp = GaussianProcess.fit(x_ND, y_N, np.zeros(80), np.array([0, 1]))
    assert gp.lengths_D[1] > 3 * gp.lengths_D[0]
    assert 0.15 < math.sqrt(gp.noise) < 0.45
    known = GaussianProcess.fit(x_ND, y_N, np.full(80, 0.09), np.array([0, 1]))
    assert known.noise < 0.5 * gp.noise


def test_pending_points_lower_the_deviation_and_leave_the_mean() -> None:
    gp = process()
    z = np.random.default_rng(4).random((6, 4))
    after = gp.with_pending(z[:2])
    np.testing.assert_allclose(after.predict(z)[0], gp.predict(z)[0], rtol=1e-5, atol=1e-8)
    assert np.all(after.predict(z)[1] <= gp.predict(z)[1] + 1e-9)
    assert np.all(after.predict(z)[1][:2] < 0.01)


def test_expected_improvement_is_the_mean_of_improvements() -> None:
    gp = process()
    z, best = np.random.default_rng(5).random((1, 4)), 1.2
    mean, sd = gp.predict(z)
    draws = mean[0] + sd[0] * norm.ppf((np.arange(200_000) + 0.5) / 200_000)
    assert math.exp(log_expected_improvement(gp, z, best)[0]) == pytest.approx(
        np.maximum(draws - best, 0).mean(), rel=1e-3
    )


def test_log_h_is_exact_in_the_tail() -> None:
    import mpmath

    for z in (-300.0, -20.0, -3.0, -1.001, -0.999, 0.0, 2.0, 30.0):
        with mpmath.workdps(60):
            exact = float(mpmath.log(mpmath.npdf(z) + z * mpmath.ncdf(z)))
        assert float(log_h(np.array(z))) == pytest.approx(exact, rel=1e-9, abs=1e-9)
    values = log_h(-np.logspace(0, 7, 200))
    assert np.all(np.isfinite(values))
    assert np.all(np.diff(values) < 0)


def test_the_gradient_of_expected_improvement_equals_finite_differences() -> None:
    gp = process()
    for best in (-0.5, 1.0, 8.0):
        x_MD = np.random.default_rng(6).random((4, 4))
        value_M, gradient_MD = log_expected_improvement_with_gradient(gp, x_MD, best)
        for x, value, gradient in zip(x_MD, value_M, gradient_MD, strict=True):
            assert value == pytest.approx(log_expected_improvement(gp, x[None], best)[0], rel=1e-7)
            numeric = numeric_gradient(lambda z, b=best: log_expected_improvement(gp, z[None], b)[0], x)
            np.testing.assert_allclose(gradient, numeric, rtol=1e-3, atol=1e-4)


def test_the_maximum_is_no_worse_than_that_of_a_grid() -> None:
    rng = np.random.default_rng(7)
    cube = UnitCube({"a": FloatDistribution(0, 1), "b": FloatDistribution(0, 1)})
    x_ND = rng.random((12, 2))
    gp = GaussianProcess.fit(x_ND, np.sin(7 * x_ND).sum(1), np.zeros(12), cube.groups_D)
    best = float(gp.predict(x_ND)[0].max())
    point = maximise(gp, best, cube, x_ND[:3], x_ND, rng)
    grid = np.stack(np.meshgrid(np.linspace(0, 1, 80), np.linspace(0, 1, 80)), -1).reshape(-1, 2)
    values = log_expected_improvement(gp, grid, best)
    assert log_expected_improvement(gp, point[None], best)[0] >= values.max() - 0.01


def test_the_cube_returns_each_value_that_it_was_given() -> None:
    space = {
        "lr": FloatDistribution(1e-5, 1e-1, log=True),
        "count": IntDistribution(1, 64, log=True),
        "layers": IntDistribution(2, 5),
        "step": FloatDistribution(0.0, 1.0, step=0.25),
        "name": CategoricalDistribution(["a", True, 1, None]),
    }
    cube = UnitCube(space)
    assert cube.dimension == 8
    trial = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for _ in range(50):
        params = trial.ask(space).params
        point = cube.encode(params)
        decoded = cube.decode(point)
        assert decoded.pop("lr") == pytest.approx(params.pop("lr"))
        assert decoded == params
        assert type(decoded["name"]) is type(params["name"])
        np.testing.assert_allclose(cube.snap(point[None])[0], point, atol=1e-12)
    uniform = np.random.default_rng(0).random((4000, 5))
    layers = [cube.decode(point)["layers"] for point in cube.spread(uniform)]
    assert all(abs(layers.count(value) - 1000) < 120 for value in range(2, 6))
    for neighbour in cube.neighbours(cube.encode(trial.ask(space).params)):
        np.testing.assert_allclose(cube.snap(neighbour[None])[0], neighbour, atol=1e-12)


def sphere(values: dict[str, float]) -> float:
    return -sum((value - 0.3) ** 2 for value in values.values())


def best_of(sampler: optuna.samplers.BaseSampler, count: int = 25, sd: float = 0.0) -> float:
    study = optuna.create_study(direction="maximize", sampler=sampler)
    space = {name: FloatDistribution(0, 1) for name in "abcd"}
    for _ in range(count):
        trial = study.ask(space)
        trial.set_user_attr("estimate_sd", sd)
        study.tell(trial, sphere(trial.params))
    return study.best_value


def test_it_finds_the_top_of_a_hill_where_random_points_do_not() -> None:
    random = [best_of(optuna.samplers.RandomSampler(seed=seed)) for seed in range(3)]
    assert np.mean([best_of(GpSampler(5, seed)) for seed in range(3)]) > 0.1 * np.mean(random)


def test_parallel_workers_get_different_points() -> None:
    study = optuna.create_study(direction="maximize", sampler=GpSampler(5, 0))
    space = {name: FloatDistribution(0, 1) for name in "abcd"}
    for _ in range(8):
        trial = study.ask(space)
        study.tell(trial, sphere(trial.params))
    points = np.array([list(study.ask(space).params.values()) for _ in range(4)])
    distances = [np.linalg.norm(a - b) for i, a in enumerate(points) for b in points[:i]]
    assert min(distances) > 0.05


def test_an_uncertain_high_value_does_not_hide_a_certain_lower_one() -> None:
    """The estimate of a stopped trial with a large deviation weighs less than complete trials beside it."""
    x_ND = np.linspace(0, 1, 11)[:, None]
    y_N = np.where(np.arange(11) == 8, 2.0, -((x_ND[:, 0] - 0.2) ** 2))
    theta = np.array([math.log(0.2), 0.0, math.log(1e-4), 0.0])
    certain = GaussianProcess(x_ND, y_N, np.zeros(11), np.array([0]), theta)
    variance_N = np.where(np.arange(11) == 8, 25.0, 0.0)
    uncertain = GaussianProcess(x_ND, y_N, variance_N, np.array([0]), theta)
    assert certain.predict(x_ND)[0][8] > 1.5
    assert uncertain.predict(x_ND)[0][8] < 0.3


def test_very_bad_scores_do_not_flatten_the_others_and_a_fit_has_a_limit() -> None:
    noise = np.array([0.03, 0.03, 0.03, 0.05, 0.03])
    scores, sd = standardised(np.array([0.5, 0.6, 0.7, 0.65, -1e9]), noise)
    assert scores[2] - scores[0] > 0.3
    assert np.std(scores) == pytest.approx(1.0)
    # the noise of 0.03 that all share is fitted; of the 0.04 left of sqrt(0.03² + 0.04²) a share counts
    unit = (0.7 - 0.5) / (scores[2] - scores[0])
    np.testing.assert_allclose(sd * unit, [0, 0, 0, 0.04 * OWN_ERROR, 0], atol=1e-9)
    rows = chosen(np.arange(1000.0)[::-1])
    assert len(rows) == 300
    assert {0, 149, 999} <= set(rows.tolist())
    few = representative(np.arange(300.0)).tolist()
    assert len(few) == len(set(few)) == 100
    assert {0, *range(250, 300)} <= set(few)
    assert representative(np.arange(100.0)).tolist() == list(range(100))


def test_a_proposal_uses_one_thread_of_blas_whatever_the_machine_has(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def proposed(self: GpSampler, study: object, trial: object, cube: UnitCube) -> dict[str, float]:
        seen.extend(each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas")
        return {}

    monkeypatch.setattr(GpSampler, "_proposed", proposed)
    study = optuna.create_study(sampler=GpSampler(1, 0))
    study.add_trial(
        optuna.trial.create_trial(value=1.0, params={"x": 0.5}, distributions={"x": FloatDistribution(0, 1)})
    )
    with threadpool_limits(2, "blas"):
        study.ask({"x": FloatDistribution(0, 1)})
    assert seen
    assert set(seen) == {1}


def test_a_suggestion_at_300_trials_takes_less_than_a_second() -> None:
    study = optuna.create_study(direction="maximize", sampler=GpSampler(5, 0))
    space = {f"x{i}": FloatDistribution(0, 1) for i in range(8)}
    rng = np.random.default_rng(0)
    for _ in range(300):
        params = dict(zip(space, rng.random(8), strict=True))
        study.add_trial(optuna.trial.create_trial(params=params, distributions=space, value=sphere(params)))
    start = time.process_time()
    study.ask(space)
    assert time.process_time() - start < 1.0


@pytest.mark.parametrize(("stopped", "elsewhere"), [(0, 0), (4, 0), (5, 3), (20, 3)])
def test_every_third_point_is_a_sobol_point_where_a_quarter_of_the_trials_was_stopped(
    stopped: int, elsewhere: int
) -> None:
    study = optuna.create_study(direction="maximize", sampler=GpSampler(5, 0))
    space = {name: FloatDistribution(0, 1) for name in "abcd"}
    for index in range(20):
        params = dict(zip(space, np.random.default_rng(index).random(4), strict=True))
        told = optuna.trial.create_trial(params=params, distributions=space, value=sphere(params))
        told.set_user_attr("stopped", index < stopped)
        study.add_trial(told)
    asked = [study.ask(space) for _ in range(9)]
    assert sum(not trial.relative_params for trial in asked) == elsewhere
