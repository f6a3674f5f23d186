"""The true mean of a candidate that was chosen for its scores, with all others as evidence of its luck.

Two things decide how far the best of many scores is above its true mean: how the true means scatter near the
best, and whether its noise is that of the others. `beliefs.py`, which chooses, has one normal population and
one σ. Here the true means have one of several shapes (`mean_shapes.py`): symmetric, below a limit that the
metric or the model cannot exceed, or with rare good ones; and each configuration has a noise of its own
(`own_noise.py`). All hyperparameters (s, ν, β, τ, m, shape) are integrated on a grid. The interval is that of
a posterior, and so it holds for whatever rule chooses by the scores.

As in `population.py` only the best half is fitted, and the others enter as "below the threshold". The effects
θ of seeds and folds are those of `beliefs.py`; their uncertainty is added.

Shapes: N inside candidates, C cells of the axis of true means, G populations (shape, τ, m).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dmltune.search.beliefs import Beliefs
from dmltune.search.design import Design, Floats
from dmltune.search.mean_shapes import Shapes
from dmltune.search.mixtures import Mixture, grouped, plus
from dmltune.search.own_noise import NoiseModel, Reduced, reduced

_CELLS = 100
_NOISES = 8  # points of s for each (ν, β)
_DEGREES = (4.0, np.inf)  # ν: the noise differs, or it is that of all. Each is as probable
_SLOPES = (0.0, 0.5)  # β: the noise does not depend on the mean, or it does
_MOST_INSIDE = 100  # the best ones tell how the best scatter; the others are "below"
_EFFECT_GROUPS = 8
_BASELINE_GROUPS = 40
_IMPROBABLE = 6.0  # log units of the evidence of repetitions below the best
_WIDEST = 60.0  # τ/σ
_TINY = 1e-300


class Chosen:
    """The candidate `index` of the design, chosen by its scores."""

    def __init__(self, design: Design, belief: Beliefs, index: int, noise: float | None = None) -> None:
        self._belief, self._index, self._shift = belief, index, design.shift
        self._theta = belief.weights @ belief.psi[:, 1:]
        self._all, self._effects = reduced(design, self._theta), _mean_columns(design)
        inside = self._split(design)
        self._inside = self._all[np.flatnonzero(inside)]
        self._own = int(inside[:index].sum())
        telling = design.noise_of & (design.counts > 1)
        self._rest = self._all[np.flatnonzero(telling & ~inside)]
        self._below = int((design.is_candidate & ~inside).sum())
        spread = float(belief.weights @ belief.noise)
        self._edges = self._axis(spread)
        top = float(belief.expected[design.is_candidate].max())
        repeated = self._all[np.flatnonzero(telling)]
        self._noises = (
            [NoiseModel(noise, np.inf, 0.0, top)] if noise else _probable_noises(repeated, spread, top)
        )
        self._fit(max(_WIDEST, 4 * float(np.ptp(self._inside.means)) / spread))

    def _split(self, design: Design) -> NDArray[np.bool_]:
        """Return who is inside; many candidates have a higher threshold than the median."""
        firsts = np.sort(design.first[design.is_candidate])[::-1]
        self._threshold = design.threshold
        if len(firsts) > 2 * _MOST_INSIDE:
            self._threshold = max(self._threshold, float(firsts[_MOST_INSIDE - 1]))
        inside = design.is_candidate & (np.maximum(design.first, design.means) >= self._threshold)
        inside[self._index] = True
        return np.asarray(inside)

    def _axis(self, spread: float) -> Floats:
        """Return edges of cells, finest near the mean of the scores of the chosen one."""
        means = self._inside.means
        center = float(means[self._own])
        fine = 0.1 * spread / np.sqrt(self._inside.counts[self._own])
        reach = max(30 * spread, 1.5 * float(np.abs(means - center).max()))
        turns = np.arcsinh(min(reach, 300 * spread) / fine)
        edges = center + fine * np.sinh(np.linspace(-turns, turns, _CELLS - 1))
        return np.concatenate([[edges[0] - reach], edges, [edges[-1] + reach]])

    def _fit(self, widest: float) -> None:
        """Compute the posterior of the cells, and the weight of each hypothesis about the noise."""
        number = len(self._inside.means)
        anchor = self._threshold if np.isfinite(self._threshold) else float(np.median(self._inside.means))
        above, below = (number, self._below) if self._below else (number / 2, number / 2)
        shapes = Shapes(anchor, above, below, widest)
        made: dict[float, Floats] = {}
        logs, cells = np.full(len(self._noises), -np.inf), np.zeros((len(self._noises), _CELLS))
        for i, noise in enumerate(self._noises):
            if noise.s not in made:
                made[noise.s] = shapes.cumulated(self._edges, noise.s)
            population = made[noise.s]  # (G, C + 1)
            mass = np.diff(population, axis=1)
            given, scale = self._inside.in_cells(self._edges, noise)
            likely = np.maximum(given @ mass.T, _TINY)  # (N, G)
            log_weights = shapes.log_prior + np.log(likely).sum(axis=0) + scale.sum()
            log_weights += self._rest.evidence(noise)
            if self._below:
                failed = noise.below((self._threshold - self._edges) / noise.at(self._edges))
                chance = population[:, 0] + mass @ ((failed[1:] + failed[:-1]) / 2)
                log_weights += self._below * np.log(np.clip(chance, _TINY, 1.0))
            top = log_weights.max()
            weights = np.exp(log_weights - top)
            posterior = (weights / likely[self._own]) @ mass * given[self._own]
            if posterior.sum() > 0:
                logs[i] = top + np.log(weights.sum())
                cells[i] = posterior / posterior.sum()
        self._weights = np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()
        self._cells = self._weights @ cells

    def mean(self, baseline: int | None = None) -> Mixture:
        """Return the posterior over all seeds, or of the difference to the baseline."""
        centers, widths = (self._edges[1:] + self._edges[:-1]) / 2, np.diff(self._edges)
        parts, shift = Mixture(self._cells, centers, widths**2 / 12), self._shift
        load = -self._effects[self._index]
        if baseline is not None:
            load = load + self._effects[baseline]
            return plus(plus(parts, self._minus(baseline)), self._shared(load))
        if shift is None:
            return plus(parts, self._shared(load))
        load = load + (np.arange(len(load)) == shift)
        return plus(parts, self._shared(load, float(self._theta[shift])))

    def _minus(self, baseline: int) -> Mixture:
        """Return minus the baseline's mean as a mixture of narrow normals; its prior is flat.

        Nobody chose it for its score, and it is a sound configuration: it has the noise of those at the top,
        whatever that may be far below. With one score of its own nothing else could be said of any lead.
        """
        probabilities = (np.arange(40) + 0.5) / 40
        one = self._all[np.array([baseline])]
        usual = [NoiseModel(noise.s, np.inf, 0.0, noise.top) for noise in self._noises]
        found = np.concatenate([-one.quantiles(noise, probabilities)[0] for noise in usual])
        weights = np.repeat(self._weights / len(probabilities), len(probabilities))
        return grouped(Mixture(weights, found, np.zeros(len(found))), _BASELINE_GROUPS, found)

    def _shared(self, load: Floats, at: float = 0.0) -> Mixture:
        """Return what the uncertain effects of seeds and folds add, with `at` as its mean."""
        belief = self._belief
        means = at + (belief.psi[:, 1:] - self._theta) @ load
        variances = np.einsum("q,gqr,r->g", load, belief.covariance[:, 1:, 1:], load)
        return grouped(Mixture(belief.weights, means, variances), _EFFECT_GROUPS, variances)


def _probable_noises(repeated: Reduced, spread: float, top: float) -> list[NoiseModel]:
    """Return the noises that the repeated scores leave probable, evenly in log s and on one axis."""
    found = []
    for degrees in _DEGREES:
        for slope in _SLOPES:
            points = [NoiseModel(s, degrees, slope, top) for s in spread * np.geomspace(0.01, 8.0, 60)]
            found.append((np.array([repeated.evidence(point) for point in points]), points))
    best = max(evidence.max() for evidence, _ in found)
    near = [np.flatnonzero(evidence > best - _IMPROBABLE) for evidence, _ in found]
    step = max(1, max(map(len, near)) // _NOISES)
    first = int(np.argmax(max((evidence for evidence, _ in found), key=np.max))) % step
    return [
        points[i] for (_, points), which in zip(found, near, strict=True) for i in which if i % step == first
    ]


def _mean_columns(design: Design) -> Floats:
    sums = np.zeros((len(design.candidates), design.columns.shape[1]))
    np.add.at(sums, design.owner, design.columns)
    return np.asarray(sums / design.counts[:, None])
