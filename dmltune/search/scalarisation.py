"""Several objectives as one value for the sampler: another weighting for every proposal (ParEGO).

With the objectives z of a trial scaled to 0 (worst) … 1 (best) and weights w on the simplex,

    value = − max_i w_i (1 − z_i) − 0.05 Σ_i w_i (1 − z_i)      (Knowles 2006, augmented Chebyshev)

Every point of a front, also of a concave one, is the best for some weights. The weights follow from the seed
and the number of the proposal, so a resumed search proposes what an undisturbed one would.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dmltune.search.extrapolation import Estimate, Floats, clipped
from dmltune.search.front import unit_scores

SUM = 0.05  # weight of the sum, which separates points of equal maximum


def weights_of(objectives: int, seed: int, proposal: int) -> Floats:
    """Return the weights of a proposal, uniform on the simplex."""
    return np.random.default_rng([seed, proposal]).dirichlet(np.ones(objectives))


def scalarised(
    estimates: Mapping[int, Estimate], costs: Mapping[int, Sequence[float]], weights: Floats
) -> dict[int, Estimate]:
    """Return the estimates with means and errors of the value; without costs a trial has the worst."""
    numbers = [number for number in estimates if number in costs]
    if not numbers:
        return dict(estimates)
    scores = clipped(np.array([estimates[number].mean for number in numbers]))
    z_NM = np.array(unit_scores(scores.tolist(), [costs[number] for number in numbers]))
    terms_NM = weights * (1 - z_NM)
    values = -terms_NM.max(axis=1) - SUM * terms_NM.sum(axis=1)
    spread = float(np.ptp(scores)) or 1.0
    # an error of the score is one of the value where the score is the largest term
    slopes = weights[0] / spread * ((terms_NM.argmax(axis=1) == 0) + SUM)
    found = {
        number: Estimate(float(value), float(slope) * estimates[number].sd)
        for number, value, slope in zip(numbers, values, slopes, strict=True)
    }
    worst = min(found.values(), key=lambda estimate: estimate.mean)
    return {number: found.get(number, worst) for number in estimates}
