"""Which point to try next: a sampler over finished and running trials, inside the space's rules.

The sampler works on a study in memory, rebuilt from the persistent one for every proposal (20 ms for a
thousand trials). So a resumed search proposes from all trials, and a point that breaks a rule or was tried
already leaves no trace. The baseline, which is no point of the space, is left out. What the sampler stores in
the proposed trial and in the study (CMA-ES and NSGA keep their generations there) is part of the proposal and
is stored with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.samplers import BaseSampler, RandomSampler
from optuna.trial import FrozenTrial, TrialState, create_trial

from dmltune.errors import UserError
from dmltune.experiment.space.parameter import Parameter
from dmltune.experiment.space.search_space import SearchSpace

optuna.logging.set_verbosity(optuna.logging.ERROR)

ASKS = 20  # forbidden or repeated points of the sampler before random ones are drawn
DRAWS = 10_000


@dataclass(frozen=True)
class Proposal:
    """A point, and what the sampler stored in its trial and in the study."""

    values: Mapping[str, Any]
    trial_attributes: Mapping[str, Any] = field(default_factory=dict)
    study_attributes: Mapping[str, Any] = field(default_factory=dict)


class Proposer:
    """Proposes points of one space.

    Every proposal has a sampler of its own, seeded by the number of trials before it: Optuna's samplers cache
    what they know of a study, and a resumed search proposes what an undisturbed one would.
    """

    def __init__(
        self,
        space: SearchSpace,
        make_sampler: Callable[[int], BaseSampler],
        mode: Literal["max", "min"],
        seed: int,
    ) -> None:
        self._space = space
        self._direction: Literal["maximize", "minimize"] = "maximize" if mode == "max" else "minimize"
        self._make_sampler = make_sampler
        self._seed = seed

    def propose(
        self, trials: Sequence[FrozenTrial], study_attributes: Mapping[str, Any] | None = None
    ) -> Proposal | None:
        """Return a point that no rule forbids and no trial has tried; None when a finite space has no
        more."""
        tried = [trial.params for trial in trials]
        seed = self._seed + 1000 * len(trials)
        samplers = ((self._make_sampler(seed), ASKS), (RandomSampler(seed=seed + 1), DRAWS))
        for sampler, times in samplers:
            study = optuna.create_study(direction=self._direction, sampler=sampler)
            study.add_trials(trials)
            for key, value in (study_attributes or {}).items():
                study._storage.set_study_system_attr(study._study_id, key, value)
            for _ in range(times):
                trial = study.ask()
                values = {p.name: v for p, v in self._suggest(trial)}
                if values not in tried and self._space.violated(values) is None:
                    frozen = study._storage.get_trial(trial._trial_id)
                    stored = study._storage.get_study_system_attrs(study._study_id)
                    return Proposal(values, dict(frozen.system_attrs), dict(stored))
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
                values[parameter.name] = trial._suggest(parameter.name, distribution(parameter))
                yield parameter, values[parameter.name]


def distribution(parameter: Parameter) -> BaseDistribution:
    """Return Optuna's form of the parameter's range."""
    if parameter.kind == "choice":
        return CategoricalDistribution(parameter.choices)
    if parameter.kind == "int":
        return IntDistribution(int(parameter.low), int(parameter.high), log=parameter.log)
    return FloatDistribution(float(parameter.low), float(parameter.high), log=parameter.log)


def as_template(space: SearchSpace, proposal: Proposal, attributes: Mapping[str, Any]) -> FrozenTrial:
    """Return a RUNNING trial to be written into the persistent study."""
    ranges = {p.name: distribution(p) for p in space.parameters if p.name in proposal.values}
    return create_trial(
        state=TrialState.RUNNING,
        params=dict(proposal.values),
        distributions=ranges,
        user_attrs=dict(attributes),
        system_attrs=dict(proposal.trial_attributes),
    )


def size_of(space: SearchSpace) -> float:
    """Return how many points there are; infinite as soon as one parameter is a float."""
    return math.prod(_count(parameter) for parameter in space.parameters)


def _count(parameter: Parameter) -> float:
    if parameter.kind == "float":
        return math.inf
    if parameter.kind == "int":
        return int(parameter.high) - int(parameter.low) + 1
    return len(parameter.choices)
