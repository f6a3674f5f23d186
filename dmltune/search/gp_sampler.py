"""A sampler of Optuna with a Gaussian process that knows how certain each score is.

Finished trials have a value; the user attribute `estimate_sd` is its standard deviation: small for complete
trials and large for those that were stopped and whose value is an estimate. Running trials, and points that
were refused in this study (state FAIL), are pending: they lower the uncertainty around them, so that parallel
workers get different points. The first points are those of a scrambled Sobol sequence. So is every third one
later, where many trials are stopped early (user attribute `stopped`): a bad one of them costs little, and the
process does not stay on the first good hill of a rough landscape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from dmltune.search.acquisition import maximise
from dmltune.search.extrapolation import clipped
from dmltune.search.gaussian_process import GaussianProcess
from dmltune.search.linear_algebra import one_thread
from dmltune.search.sobol_sampler import SobolSampler
from dmltune.search.unit_cube import UnitCube

Floats = NDArray[np.float64]

POINTS = 300  # of the process; of more trials the better half and the latest are taken
FITTED = 100  # of them decide the length scales: the better half and others evenly
WIDEST = 10.0  # deviation of an estimate, in those of the scores
GOOD = 10  # points around which candidates are drawn
# Of the error of an estimate this share is a trial's own. The rest is that of the line fitted to all:
# it moves the estimates together, and says nothing of which point is better. On the 8 tables of TaskSet
# (benchmarks/search_public.py, 3 seeds) the regret after 20 and 40 trainings' time was .373 and .313 with all
# of it and .312 and .245 with this share; on smoothed tables .341 and .229 against .300 and .191.
OWN_ERROR = 0.3
# Every third proposal is a Sobol point where at least a quarter of the trials were stopped early. On the 8
# tables of TaskSet, nearest neighbour, seed 1000, the regret after 20 and 40 trainings was .464 and .436
# without and .277 and .177 with them; on 4 smoothed tables .000 and .000 without and .039 and .000 with.
ELSEWHERE = 3
MANY_STOPPED = 0.25


def seen_space(trials: Sequence[FrozenTrial]) -> dict[str, BaseDistribution]:
    """Return the parameters of all trials in the order of their appearance, with their latest bounds."""
    space: dict[str, BaseDistribution] = {}
    for trial in trials:
        space.update(trial.distributions)
    return {name: distribution for name, distribution in space.items() if not distribution.single()}


def finished(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Return the trials with a finite value."""
    return [t for t in trials if t.state == TrialState.COMPLETE and t.values and np.isfinite(t.values[0])]


def _many_stopped(done: Sequence[FrozenTrial]) -> bool:
    return sum(bool(t.user_attrs.get("stopped")) for t in done) >= MANY_STOPPED * len(done)


class GpSampler(BaseSampler):
    """Log expected improvement over a Gaussian process; `startup` trials are Sobol points."""

    def __init__(self, startup: int, seed: int) -> None:
        self._startup = startup
        self._seed = seed
        self._sobol = SobolSampler(seed)
        self._fitted: tuple[int, tuple[str, ...], GaussianProcess] | None = None

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        trials = study.get_trials(deepcopy=False)
        done = finished(trials)
        if len(done) < self._startup or (self._sobol.index % ELSEWHERE == 0 and _many_stopped(done)):
            return {}
        return seen_space(trials)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        if not search_space:
            return {}
        with one_thread():
            return self._proposed(study, trial, UnitCube(search_space))

    def _proposed(self, study: Study, trial: FrozenTrial, cube: UnitCube) -> dict[str, Any]:
        trials = [each for each in study.get_trials(deepcopy=False) if each.number != trial.number]
        done = finished(trials)
        pending = [t for t in trials if t.state in (TrialState.RUNNING, TrialState.FAIL) and t.params]
        rng = np.random.default_rng([self._seed, trial.number])
        process = self._fit(study, cube, done)
        pending_MD = cube.encode_all([t.params for t in pending])
        mean_N, _ = process.predict(process.x_ND)
        # a pending point counts as its mean: only what is better than that is still an improvement
        incumbent = float(process.predict(np.concatenate([process.x_ND, pending_MD]))[0].max())
        good_KD = process.x_ND[np.argsort(-mean_N, kind="stable")[:GOOD]]
        point_D = maximise(
            process.with_pending(pending_MD),
            incumbent,
            cube,
            good_KD,
            np.concatenate([cube.encode_all([t.params for t in done]), pending_MD]),
            rng,
        )
        return cube.decode(point_D)

    def _fit(self, study: Study, cube: UnitCube, done: Sequence[FrozenTrial]) -> GaussianProcess:
        """Return the process of the finished trials; a second proposal in one study reuses it."""
        key = (len(done), tuple(axis.name for axis in cube.axes))
        if self._fitted is None or self._fitted[:2] != key:
            sign = -1.0 if study.direction == StudyDirection.MINIMIZE else 1.0
            scores = np.array([sign * trial.values[0] for trial in done])
            deviations = np.array([float(trial.user_attrs.get("estimate_sd", 0.0)) for trial in done])
            rows = chosen(scores)
            x_ND = cube.encode_all([done[row].params for row in rows])
            y_N, sd_N = standardised(scores[rows], deviations[rows])
            few = representative(y_N)
            starts = 2 if len(few) <= 50 else 1
            fitted = GaussianProcess.fit(x_ND[few], y_N[few], sd_N[few] ** 2, cube.groups_D, starts=starts)
            if len(few) < len(rows):
                fitted = GaussianProcess(x_ND, y_N, sd_N**2, cube.groups_D, fitted.theta)
            self._fitted = (*key, fitted)
        return self._fitted[2]

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return self._sobol.sample_independent(study, trial, param_name, param_distribution)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        self._sobol.before_trial(study, trial)


def chosen(scores_N: Floats) -> NDArray[np.intp]:
    """Return the rows that enter the fit: all, or the better half of the limit and the latest others."""
    if len(scores_N) <= POINTS:
        return np.arange(len(scores_N))
    best = np.argsort(-scores_N, kind="stable")[: POINTS // 2]
    latest = [row for row in range(len(scores_N) - 1, -1, -1) if row not in set(best.tolist())]
    return np.sort(np.concatenate([best, latest[: POINTS - len(best)]]))


def representative(y_N: Floats) -> NDArray[np.intp]:
    """Return the rows that decide the length scales: all, or the better half and others, evenly."""
    if len(y_N) <= FITTED:
        return np.arange(len(y_N))
    order = np.argsort(-y_N, kind="stable")
    others = np.linspace(FITTED // 2, len(y_N) - 1, FITTED - FITTED // 2).astype(np.intp)
    return np.sort(np.concatenate([order[: FITTED // 2], order[others]]))


def standardised(scores_N: Floats, sd_N: Floats) -> tuple[Floats, Floats]:
    """Return scores and deviations in units in which the scores have mean 0 and variance 1.

    Very bad scores, as of failed trials, are moved up first: how bad they are does not matter. The noise that
    all scores share is left out of the deviations, because the process fits it.
    """
    scores_N = clipped(scores_N)
    scale = float(np.std(scores_N)) or 1.0
    own_N = OWN_ERROR * np.sqrt(np.maximum(sd_N**2 - np.min(sd_N) ** 2, 0.0)) / scale
    return (scores_N - scores_N.mean()) / scale, np.minimum(own_N, WIDEST)
