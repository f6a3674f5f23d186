"""The score over the two parameters that matter most, as a Gaussian process of all parameters sees it.

    surface(u, v) = mean over the trials i of  μ(x_i with u and v in place of its own two values)

μ is the posterior mean. So the other parameters take the values that the trials had, not one chosen point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution

from dmltune.experiment.space.parameter import key_of
from dmltune.search.extrapolation import clipped
from dmltune.search.gaussian_process import GaussianProcess
from dmltune.search.gp_sampler import chosen, seen_space
from dmltune.search.importance import LEAST, Importances, Responses
from dmltune.search.unit_cube import Axis, UnitCube

Floats = NDArray[np.float64]

STEPS = 24  # cells of a numeric axis
AVERAGED = 60  # trials whose other values are averaged over


@dataclass(frozen=True)
class SurfaceAxis:
    """One side of the surface: for numbers `edges` has one value more than `values`, for choices none."""

    name: str
    values: tuple[Any, ...]
    edges: tuple[float, ...]
    log: bool


@dataclass(frozen=True)
class Surface:
    """`score[i][j]` belongs to `x.values[i]` and `y.values[j]`. `points`: trial number, x, y and score."""

    x: SurfaceAxis
    y: SurfaceAxis
    score: tuple[tuple[float, ...], ...]
    points: tuple[tuple[int, Any, Any, float], ...]


def surface(known: Responses, found: Importances) -> Surface | None:
    """Return the surface; None with fewer than two parameters of one range, or too few trials."""
    space = {name: each for name, each in seen_space(known.trials).items() if key_of(name) == name}
    names = [row.name for row in found.parameters if row.name in space][:2]
    if len(names) < 2 or len(known.trials) < LEAST:
        return None
    cube = UnitCube(seen_space(known.trials))
    first, second = (next(axis for axis in cube.axes if axis.name == name) for name in names)
    x_ND = np.array([cube.encode(trial.params) for trial in known.trials])
    scores_N = clipped(known.scores)
    scale = float(np.std(scores_N)) or 1.0
    rows = chosen(known.scores)
    process = GaussianProcess.fit(
        x_ND[rows],
        (scores_N[rows] - scores_N.mean()) / scale,
        (known.spread[rows] / scale) ** 2,
        cube.groups_D,
        starts=2 if len(rows) <= 100 else 1,
        iterations=60 if len(rows) <= 100 else 25,
    )
    x, y = side(first, space[names[0]]), side(second, space[names[1]])
    rng = np.random.default_rng(0)
    others_RD = x_ND[rng.permutation(len(x_ND))[:AVERAGED]]
    cells = _mean(process, others_RD, first, second, x, y) * scale + scores_N.mean()
    points = [
        (trial.number, trial.params[names[0]], trial.params[names[1]], float(score))
        for trial, score in zip(known.trials, known.scores, strict=True)
        if names[0] in trial.params and names[1] in trial.params
    ]
    return Surface(x, y, tuple(map(tuple, cells.tolist())), tuple(points))


def side(axis: Axis, distribution: BaseDistribution) -> SurfaceAxis:
    if axis.choices:
        return SurfaceAxis(axis.name, axis.choices, (), False)
    count = min(STEPS, axis.levels or STEPS)
    places = (np.arange(count) + 0.5) / count
    log = bool(getattr(distribution, "log", False))
    values = [axis.decode(np.array([place])) for place in places]
    edges = axis.between(np.arange(count + 1) / count).tolist()
    return SurfaceAxis(axis.name, tuple(values), tuple(edges), log)


def _mean(
    process: GaussianProcess,
    others_RD: Floats,
    first: Axis,
    second: Axis,
    x: SurfaceAxis,
    y: SurfaceAxis,
) -> Floats:
    cells = np.empty((len(x.values), len(y.values)))
    for i, u in enumerate(x.values):
        grid = np.tile(others_RD, (len(y.values), 1))
        grid[:, first.columns] = first.encode(u)
        grid[:, second.columns] = np.repeat(_encoded(second, y.values), len(others_RD), axis=0)
        cells[i] = process.predict(grid)[0].reshape(len(y.values), len(others_RD)).mean(1)
    return cells


def _encoded(axis: Axis, values: Sequence[Any]) -> Floats:
    return np.array([axis.encode(value) for value in values])
