"""Which point to try next: Optuna's samplers over finished and running trials, inside the space's rules.

The sampler's own study lives in memory and is rebuilt from the persistent one for every proposal (20 ms for a
thousand trials). So a resumed search proposes from everything that is known, a point that breaks a `require`
rule or was already tried leaves no trace in the persistent study, and the baseline, which is no point of the
space, does not mislead it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.samplers import BaseSampler, GPSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState, create_trial

from dmltune.errors import UserError
from dmltune.experiment.space.parameter import Parameter
from dmltune.experiment.space.search_space import SearchSpace

ASKS = 20  # how often the sampler may propose a forbidden or repeated point before random ones are drawn
DRAWS = 10_000


class Proposer:
    """Asks one sampler for points of one space. `trials` is the size of the search (it sets the random
    start).
    """

    def __init__(
        self,
        space: SearchSpace,
        sampler: str,
        direction: Literal["maximize", "minimize"],
        trials: int,
        seed: int,
    ) -> None:
        self._space = space
        self._direction = direction
        self._sampler = _sampler(sampler, startup=min(10, max(2, trials // 4)), seed=seed)
        self._random = RandomSampler(seed=seed + 1)

    def propose(self, known: Iterable[FrozenTrial]) -> dict[str, Any] | None:
        """A new point that no rule forbids and no trial has tried; None when a finite space has no more."""
        known = list(known)
        tried = [trial.params for trial in known]
        for sampler, times in ((self._sampler, ASKS), (self._random, DRAWS)):
            study = optuna.create_study(direction=self._direction, sampler=sampler)
            study.add_trials(known)
            for _ in range(times):
                trial = study.ask()
                values = {p.name: v for p, v in self._suggest(trial)}
                if values not in tried and self._space.violated(values) is None:
                    return values
                study.tell(trial, state=TrialState.FAIL)  # in memory only
        if size_of(self._space) > len(tried):
            raise UserError(
                f"no new point satisfies {', '.join(map(str, self._space.require))} in {DRAWS} random draws. "
                "Widen the bounds or drop a rule."
            )
        return None

    def _suggest(self, trial: optuna.Trial) -> Iterable[tuple[Parameter, Any]]:
        values: dict[str, Any] = {}
        for parameter in self._space.parameters:
            if parameter.name in self._space.active(values):
                values[parameter.name] = _suggest(trial, parameter)
                yield parameter, values[parameter.name]


def _suggest(trial: optuna.Trial, parameter: Parameter) -> Any:
    if parameter.kind == "choice":
        return trial.suggest_categorical(parameter.name, parameter.choices)
    if parameter.kind == "int":
        return trial.suggest_int(parameter.name, int(parameter.low), int(parameter.high), log=parameter.log)
    return trial.suggest_float(parameter.name, float(parameter.low), float(parameter.high), log=parameter.log)


def distribution(parameter: Parameter) -> BaseDistribution:
    """The same range in Optuna's words."""
    if parameter.kind == "choice":
        return CategoricalDistribution(parameter.choices)
    if parameter.kind == "int":
        return IntDistribution(int(parameter.low), int(parameter.high), log=parameter.log)
    return FloatDistribution(float(parameter.low), float(parameter.high), log=parameter.log)


def as_template(space: SearchSpace, values: Mapping[str, Any], attributes: Mapping[str, Any]) -> FrozenTrial:
    """A RUNNING trial to be written into the persistent study."""
    ranges = {p.name: distribution(p) for p in space.parameters if p.name in values}
    return create_trial(
        state=TrialState.RUNNING, params=dict(values), distributions=ranges, user_attrs=dict(attributes)
    )


def size_of(space: SearchSpace) -> float:
    """How many points there are; infinite as soon as one parameter is a float."""
    sizes = [_count(parameter) for parameter in space.parameters]
    return math.prod(sizes)


def _count(parameter: Parameter) -> float:
    if parameter.kind == "float":
        return math.inf
    if parameter.kind == "int":
        return int(parameter.high) - int(parameter.low) + 1
    return len(parameter.choices)


def _sampler(name: str, startup: int, seed: int) -> BaseSampler:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        if name == "gp":
            return GPSampler(seed=seed, n_startup_trials=startup)
        if name == "random":
            return RandomSampler(seed=seed)
        return TPESampler(
            seed=seed,
            multivariate=True,
            group=True,  # conditional parameters are modelled with the trials that have them
            constant_liar=True,
            n_startup_trials=startup,
        )
