"""A Gaussian process with a known noise variance for each observation, on the unit cube.

Notation: x_ND are N points with D columns, y_N the observed values, v_N their known variances. The model is

    y_i = c + f(x_i) + ε_i,  ε_i ~ N(0, v_i + σ²),  f ~ GP(0, a² m(r)),
    m(r) = (1 + √5 r + 5/3 r²) exp(−√5 r),  r² = Σ_d (x_d − x'_d)² / ℓ_g(d)²,

with one length scale for each parameter g; the columns of a choice share it. θ = (log ℓ_1 … log ℓ_P, log a²,
log σ², c) maximises the log marginal likelihood plus the log priors. K is the matrix of all variances.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs
from scipy.optimize import minimize

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

SQRT5 = math.sqrt(5.0)
LENGTH_BOUNDS = (math.log(0.02), math.log(50.0))
AMPLITUDE_BOUNDS = (math.log(0.02), math.log(50.0))
NOISE_BOUNDS = (math.log(1e-6), math.log(1.0))
JITTER = 1e-8


@dataclass(frozen=True)
class Priors:
    """Means and standard deviations of the normal priors of θ; that of log ℓ grows with the dimension.

    In many dimensions only long length scales let a point say something of others: the shift by log √P is
    that of Hvarfner et al. 2024 (arXiv 2402.02229). Their wider and longer prior (√2, √3) finds much worse
    points of Hartmann's function in 6 dimensions within 40 trials.
    """

    length: tuple[float, float] = (math.log(0.6), 0.8)
    amplitude: tuple[float, float] = (0.0, 1.0)
    noise: tuple[float, float] = (math.log(1e-3), 1.5)
    constant: tuple[float, float] = (0.0, 1.0)

    def of(self, parameters: int) -> tuple[Floats, Floats]:
        """Return the means and deviations of θ for P length scales."""
        length = (self.length[0] + 0.5 * math.log(parameters), self.length[1])
        rows = [length] * parameters + [self.amplitude, self.noise, self.constant]
        mean, deviation = np.array(rows).T
        return mean, deviation


def squared_distances(x_ND: Floats, z_MD: Floats) -> Floats:
    """Return ‖x_n − z_m‖² for all pairs."""
    squares = (x_ND**2).sum(1)[:, None] + (z_MD**2).sum(1)[None, :] - 2.0 * x_ND @ z_MD.T
    found: Floats = np.maximum(squares, 0.0)
    return found


def matern(r2: Floats) -> tuple[Floats, Floats]:
    """Return m(r) and −2 dm/d(r²) = 5/3 (1 + √5 r) exp(−√5 r)."""
    scaled = SQRT5 * np.sqrt(r2)
    decay = np.exp(-scaled)
    return (1.0 + scaled + scaled**2 / 3.0) * decay, 5.0 / 3.0 * (1.0 + scaled) * decay


class GaussianProcess:
    """The posterior for given θ. Values should have about mean 0 and variance 1."""

    def __init__(self, x_ND: Floats, y_N: Floats, variance_N: Floats, groups_D: Ints, theta: Floats) -> None:
        self.x_ND, self.y_N, self.variance_N, self.groups_D = x_ND, y_N, variance_N, groups_D
        self.theta = theta
        lengths_P, (log_amplitude, log_noise, self.constant) = np.exp(theta[:-3]), theta[-3:]
        self.lengths_D = lengths_P[groups_D]
        self.amplitude, self.noise = math.exp(log_amplitude), math.exp(log_noise)
        self._scaled_ND = x_ND / self.lengths_D
        self._shape_NN, self._slope_NN = matern(squared_distances(self._scaled_ND, self._scaled_ND))
        k_NN = self.amplitude * self._shape_NN
        k_NN[np.diag_indices_from(k_NN)] = self.amplitude + variance_N + self.noise + JITTER
        self._lower_NN, info = dpotrf(k_NN, lower=1)  # of LAPACK: scipy's checks take longer than the work
        if info:
            raise np.linalg.LinAlgError("the matrix of variances is not positive definite")
        self._residual_N = y_N - self.constant
        self._alpha_N = self._solved(self._residual_N)

    @classmethod
    def fit(
        cls,
        x_ND: Floats,
        y_N: Floats,
        variance_N: Floats,
        groups_D: Ints,
        priors: Priors | None = None,
        starts: int = 3,
        iterations: int = 60,
    ) -> GaussianProcess:
        """Return the posterior with the most probable θ of several starts."""
        parameters = int(groups_D.max()) + 1
        mean, deviation = (priors or Priors()).of(parameters)
        bounds = [LENGTH_BOUNDS] * parameters + [AMPLITUDE_BOUNDS, NOISE_BOUNDS, (-3.0, 3.0)]
        rng = np.random.default_rng(len(y_N))
        best: tuple[float, Floats] = (math.inf, mean)

        def loss(theta: Floats) -> tuple[float, Floats]:
            try:
                process = cls(x_ND, y_N, variance_N, groups_D, theta)
            except np.linalg.LinAlgError:
                return 1e25, np.zeros_like(theta)
            value, gradient = process.log_likelihood()
            z = (theta - mean) / deviation
            return 0.5 * float(z @ z) - value, z / deviation - gradient

        low, high = np.array(bounds).T
        for start in range(starts):
            theta_0 = mean + (deviation * rng.normal(size=len(mean)) if start else 0.0)
            found = minimize(
                loss,
                np.clip(theta_0, low, high),
                jac=True,
                method="L-BFGS-B",
                bounds=bounds,
                options={"maxiter": iterations, "ftol": 1e-7},
            )
            if found.fun < best[0]:
                best = (float(found.fun), found.x)
        return cls(x_ND, y_N, variance_N, groups_D, best[1])

    def _solved(self, right: Floats) -> Floats:
        """Return K⁻¹ b for a vector or for the columns of a matrix."""
        found: Floats = dpotrs(self._lower_NN, right, lower=1)[0]
        return found

    def log_likelihood(self) -> tuple[float, Floats]:
        """Return log p(y | θ) = −½ rᵀK⁻¹r − ½ log|K| − N/2 log 2π, r = y − c, and its gradient.

        ∂/∂θ_k = ½ tr[(ααᵀ − K⁻¹) ∂K/∂θ_k] with α = K⁻¹r, and ∂/∂c = 1ᵀα.
        """
        count = len(self.y_N)
        value = -0.5 * float(self._residual_N @ self._alpha_N)
        value -= float(np.log(np.diag(self._lower_NN)).sum()) + 0.5 * count * math.log(2 * math.pi)
        lower_NN, _ = dpotri(self._lower_NN, lower=1)  # K⁻¹, of which only the lower triangle is written
        inverse_NN = np.tril(lower_NN) + np.tril(lower_NN, -1).T
        weight_NN = np.outer(self._alpha_N, self._alpha_N) - inverse_NN
        # ∂K/∂log ℓ_d = a² · 5/3 (1 + √5 r) exp(−√5 r) · (x_d − x'_d)² / ℓ_d²; the sum over pairs of a
        # symmetric weight w is Σ w_ij (z_i − z_j)² = 2 Σ z_i² w_i − 2 zᵀwz
        pair_NN = weight_NN * self._slope_NN * self.amplitude
        z_ND = self._scaled_ND
        by_column_D = (z_ND**2 * pair_NN.sum(1)[:, None]).sum(0) - (z_ND * (pair_NN @ z_ND)).sum(0)
        by_length_P = np.bincount(self.groups_D, by_column_D, minlength=len(self.theta) - 3)
        by_amplitude = 0.5 * self.amplitude * float((weight_NN * self._shape_NN).sum())
        by_noise = 0.5 * self.noise * float(np.trace(weight_NN))
        return value, np.array([*by_length_P, by_amplitude, by_noise, float(self._alpha_N.sum())])

    def predict(self, x_MD: Floats) -> tuple[Floats, Floats]:
        """Return the mean and the standard deviation of c + f at M points."""
        k_NM = self.amplitude * matern(squared_distances(self._scaled_ND, x_MD / self.lengths_D))[0]
        mean_M = self.constant + k_NM.T @ self._alpha_N
        half_NM = solve_triangular(self._lower_NN, k_NM, lower=True, check_finite=False)
        variance_M = self.amplitude - (half_NM**2).sum(0)
        return mean_M, np.sqrt(np.maximum(variance_M, 1e-12))

    def predict_with_gradient(self, x_MD: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return mean and deviation at M points, and their gradients by the columns (M, D)."""
        offset_MND = (x_MD[:, None] - self.x_ND) / self.lengths_D
        shape_MN, slope_MN = matern((offset_MND**2).sum(axis=2))
        k_NM = self.amplitude * shape_MN.T
        # ∂m/∂x_d = −slope · (x_d − x_nd) / ℓ_d²
        jacobian_MND = (-self.amplitude * slope_MN)[:, :, None] * offset_MND / self.lengths_D
        solved_NM = self._solved(k_NM)
        sd_M = np.sqrt(np.maximum(self.amplitude - (k_NM * solved_NM).sum(axis=0), 1e-12))
        mean_M = self.constant + k_NM.T @ self._alpha_N
        mean_slope_MD = np.einsum("mnd,n->md", jacobian_MND, self._alpha_N)
        sd_slope_MD = -np.einsum("mnd,nm->md", jacobian_MND, solved_NM) / sd_M[:, None]
        return mean_M, sd_M, mean_slope_MD, sd_slope_MD

    def with_pending(self, x_MD: Floats) -> GaussianProcess:
        """Return the posterior as if the mean were known at M points: only the deviation changes.

        No noise is assumed there, because another trial at the same place would be a waste.
        """
        if not len(x_MD):
            return self
        mean_M, _ = self.predict(x_MD)
        return GaussianProcess(
            np.concatenate([self.x_ND, x_MD]),
            np.concatenate([self.y_N, mean_M]),
            np.concatenate([self.variance_N, np.full(len(x_MD), 1e-6 - self.noise)]),
            self.groups_D,
            self.theta,
        )
