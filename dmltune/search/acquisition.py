"""Where a Gaussian process expects the largest improvement: log EI and its maximum on the unit cube.

Notation: with the incumbent value b, z = (μ(x) − b) / σ(x) and h(z) = φ(z) + z Φ(z),

    log EI(x) = log σ(x) + log h(z).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import erfcx, log_ndtr

from dmltune.search.gaussian_process import GaussianProcess
from dmltune.search.unit_cube import UnitCube

Floats = NDArray[np.float64]

UNIFORM = 1024  # candidates everywhere,
AROUND = 512  # and around the best points
STARTS = 5  # of the local maximisation
BATCH = 64  # candidates that are compared with the known points at once
NEAR = 1e-3  # points as near as this in every column are the same one
LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


def log_h(z: Floats) -> Floats:
    """Return log(φ(z) + z Φ(z)), exact also where both terms cancel (Ament et al. 2023, arXiv 2310.20708)."""
    z = np.asarray(z, dtype=float)
    upper, lower = np.maximum(z, -1.0), np.minimum(z, -1.0)
    density = np.exp(-0.5 * upper**2 - LOG_SQRT_2PI)
    direct = np.log(density + upper * np.exp(log_ndtr(upper)))
    ratio = -lower * math.sqrt(math.pi / 2) * erfcx(-lower / math.sqrt(2))  # |z| Φ(z) / φ(z), below 1
    tail = np.where(lower > -1e4, np.log1p(-np.minimum(ratio, 1 - 1e-16)), -2.0 * np.log(-lower))
    return np.where(z > -1.0, direct, -0.5 * lower**2 - LOG_SQRT_2PI + tail)


def log_expected_improvement(process: GaussianProcess, x_MD: Floats, best: float) -> Floats:
    """Return log EI at M points."""
    mean_M, sd_M = process.predict(x_MD)
    return np.log(sd_M) + log_h((mean_M - best) / sd_M)


def log_expected_improvement_with_gradient(
    process: GaussianProcess, x_MD: Floats, best: float
) -> tuple[Floats, Floats]:
    """Return log EI at M points and its gradients (M, D): (Φ ∇μ + φ ∇σ) / (σ h)."""
    mean_M, sd_M, mean_slope_MD, sd_slope_MD = process.predict_with_gradient(x_MD)
    z_M = (mean_M - best) / sd_M
    log_height_M = log_h(z_M)
    by_mean_M = np.exp(log_ndtr(z_M) - log_height_M) / sd_M
    by_sd_M = np.exp(-0.5 * z_M * z_M - LOG_SQRT_2PI - log_height_M) / sd_M
    gradient_MD = by_mean_M[:, None] * mean_slope_MD + by_sd_M[:, None] * sd_slope_MD
    return np.log(sd_M) + log_height_M, gradient_MD


def candidates(cube: UnitCube, good_KD: Floats, rng: np.random.Generator) -> Floats:
    """Return points everywhere and around K good points, some with only a few parameters moved."""
    everywhere = cube.spread(rng.random((UNIFORM, len(cube.axes))))
    centre = good_KD[rng.integers(len(good_KD), size=AROUND)]
    width = 10.0 ** rng.uniform(-2.5, -0.5, size=(AROUND, 1))
    moved = rng.random((AROUND, len(cube.axes))) < rng.uniform(0.1, 1.0, size=(AROUND, 1))
    other = cube.spread(rng.random((AROUND, len(cube.axes))))
    near = np.where(cube.smooth_D, np.clip(centre + width * rng.normal(size=centre.shape), 0, 1), other)
    points = [everywhere, cube.snap(np.where(moved[:, cube.groups_D], near, centre))]
    beside = [each for point_D in good_KD[:3] for each in cube.neighbours(point_D)]
    return np.concatenate([*points, np.array(beside)]) if beside else np.concatenate(points)


def maximise(
    process: GaussianProcess,
    best: float,
    cube: UnitCube,
    good_KD: Floats,
    known_ND: Floats,
    rng: np.random.Generator,
) -> Floats:
    """Return the point with the largest log EI that is not (almost) one of the known ones."""
    points_MD = candidates(cube, good_KD, rng)
    value_M = log_expected_improvement(process, points_MD, best)
    order = _best_new(points_MD, value_M, known_ND, cube)
    if not len(order):
        anywhere: Floats = cube.spread(rng.random((1, len(cube.axes))))[0]
        return anywhere
    ends = [(float(value_M[order[0]]), points_MD[order[0]])]
    if cube.smooth_D.any():
        climbed_MD = _climb(process, best, cube, points_MD[order])
        climbed_MD = climbed_MD[is_new(climbed_MD, known_ND, cube)]
        if len(climbed_MD):
            ends += zip(log_expected_improvement(process, climbed_MD, best).tolist(), climbed_MD, strict=True)
    best_D: Floats = max(ends, key=lambda end: end[0])[1]
    return best_D


def _best_new(points_MD: Floats, value_M: Floats, known_ND: Floats, cube: UnitCube) -> NDArray[np.intp]:
    """Return the rows of the best new points, `STARTS` at most; the best ones are looked at first."""
    order = np.argsort(-value_M, kind="stable")
    found: list[int] = []
    for first in range(0, len(order), BATCH):
        rows = order[first : first + BATCH]
        found += rows[is_new(points_MD[rows], known_ND, cube)].tolist()
        if len(found) >= STARTS:
            break
    return np.array(found[:STARTS], dtype=np.intp)


def is_new(points_MD: Floats, known_ND: Floats, cube: UnitCube) -> NDArray[np.bool_]:
    """Return which of M points differ from all known ones, by more than `NEAR` where the space is smooth."""
    same_MN = np.ones((len(points_MD), len(known_ND)), dtype=bool)
    for column, is_smooth in enumerate(cube.smooth_D):
        offset_MN = points_MD[:, column, None] - known_ND[:, column]
        same_MN &= np.abs(offset_MN) <= (NEAR if is_smooth else 1e-9)
    return np.asarray(~same_MN.any(axis=1))


def _climb(process: GaussianProcess, best: float, cube: UnitCube, start_MD: Floats) -> Floats:
    """Maximise log EI from M points over the smooth columns, with the others fixed.

    They climb together, as one problem whose value is the sum: one call of the process moves all of them.
    """
    smooth_D = cube.smooth_D

    def loss(columns: Floats) -> tuple[float, Floats]:
        point_MD = start_MD.copy()
        point_MD[:, smooth_D] = columns.reshape(len(start_MD), -1)
        value_M, slope_MD = log_expected_improvement_with_gradient(process, point_MD, best)
        return -float(value_M.sum()), -slope_MD[:, smooth_D].ravel()

    start = start_MD[:, smooth_D].ravel()
    found = minimize(
        loss, start, jac=True, method="L-BFGS-B", bounds=[(0.0, 1.0)] * len(start), options={"maxiter": 40}
    )
    point_MD = start_MD.copy()
    point_MD[:, smooth_D] = found.x.reshape(len(start_MD), -1)
    return point_MD
