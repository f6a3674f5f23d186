"""Which point to try next: a sampler over finished and running trials, inside the space's rules.

The sampler works on a study in memory, rebuilt from the persistent one for every proposal (20 ms for a
thousand trials). So a resumed search proposes from all trials, and a point that breaks a rule or was tried
already leaves no trace. The baseline, which is no point of the space, is left out. What the sampler stores in
the proposed trial and in the study (CMA-ES and NSGA keep their generations there) is part of the proposal and
is stored with it.

With a `balanced` key every trial is for a choice that has the fewest. The first of each choice takes the
space's own settings for it; of the others the sampler proposes the rest.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from optuna.storages import InMemoryStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from dmltune.errors import UserError
from dmltune.experiment.space.parameter import Parameter, key_of
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


class TriedPoints:
    """Points in their order; whether one is among them is known without comparing it with all."""

    def __init__(self, points: Iterable[Mapping[str, Any]] = ()) -> None:
        self._points: list[Mapping[str, Any]] = []
        self._keys: set[frozenset[tuple[str, Any]]] = set()
        for values in points:
            self.add(values)

    def add(self, values: Mapping[str, Any]) -> None:
        self._points.append(values)
        self._keys.add(frozenset(values.items()))

    def __contains__(self, values: Mapping[str, Any]) -> bool:
        return frozenset(values.items()) in self._keys

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return iter(self._points)

    def __len__(self) -> int:
        return len(self._points)


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
        self.space = space
        self._direction: Literal["maximize", "minimize"] = "maximize" if mode == "max" else "minimize"
        self._make_sampler = make_sampler
        self._seed = seed

    def propose(
        self,
        trials: Sequence[FrozenTrial],
        study_attributes: Mapping[str, Any] | None = None,
        tried: TriedPoints | None = None,
    ) -> Proposal | None:
        """Return a point that no rule forbids and that is not among `tried`; None when a finite space has no
        more. `tried` are the points of `trials`, if these are not only some of all."""
        tried = TriedPoints(map(values_of, trials)) if tried is None else tried
        for choice in self._choices(tried):
            if choice and not any(choice.items() <= values.items() for values in tried):
                own = self.space.own_point(next(iter(choice.values())))
                if self.space.violated(own) is None:
                    return Proposal(own)
            if proposal := self._drawn(trials, tried, study_attributes or {}, choice):
                return proposal
        if size_of(self.space) > len(tried):
            raise UserError(
                f"no new point satisfies {', '.join(map(str, self.space.require))} in {DRAWS} random draws. "
                "Widen the bounds or drop a rule."
            )
        return None

    def _choices(self, tried: TriedPoints) -> list[dict[str, Any]]:
        """Return what the next trial may be fixed to, the choice with the fewest trials first."""
        name = self.space.balanced
        if name is None:
            return [{}]
        taken = [values.get(name) for values in tried]
        return [{name: choice} for choice in sorted(self.space[name].choices, key=taken.count)]

    def _drawn(
        self,
        trials: Sequence[FrozenTrial],
        tried: TriedPoints,
        study_attributes: Mapping[str, Any],
        choice: Mapping[str, Any],
    ) -> Proposal | None:
        """Return a new point with this choice, of the sampler or, if it has none, a random one."""
        seed = self._seed + 1000 * len(tried)
        draws = 100 * ASKS if choice else DRAWS
        samplers = ((self._make_sampler(seed), ASKS), (RandomSampler(seed=seed + 1), draws))
        for sampler, times in samplers:
            study = optuna.create_study(storage=_Trials(trials), direction=self._direction, sampler=sampler)
            for key, value in study_attributes.items():
                study._storage.set_study_system_attr(study._study_id, key, value)
            for _ in range(times):
                if choice:
                    study.enqueue_trial(dict(choice))
                trial = study.ask()
                values = self._suggest(trial)
                if values not in tried and self.space.violated(values) is None:
                    frozen = study._storage.get_trial(trial._trial_id)
                    stored = study._storage.get_study_system_attrs(study._study_id)
                    return Proposal(values, dict(frozen.system_attrs), dict(stored))
                study.tell(trial, state=TrialState.FAIL)  # in memory only
        return None

    def _suggest(self, trial: optuna.Trial) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for parameter in self.space.applicable(values):
            values[parameter.name] = trial._suggest(parameter.label, distribution(parameter))
        return values


class _Trials(InMemoryStorage):
    """A storage whose first study holds these trials. They are shared, because storages never change one."""

    def __init__(self, trials: Sequence[FrozenTrial]) -> None:
        super().__init__()
        self._given = trials

    def create_new_study(self, directions: Any, study_name: str | None = None) -> int:
        study = super().create_new_study(directions, study_name)
        trials = [_numbered(trial, number) for number, trial in enumerate(self._given)]
        self._studies[study].trials = trials
        self._trial_id_to_study_id_and_number |= {number: (study, number) for number in range(len(trials))}
        self._max_trial_id = len(trials) - 1
        done = [trial for trial in trials if trial.state == TrialState.COMPLETE]
        if done and len(directions) == 1:
            best = max if directions[0] == StudyDirection.MAXIMIZE else min
            self._studies[study].best_trial_id = best(done, key=_value)._trial_id
        return study


def _numbered(trial: FrozenTrial, number: int) -> FrozenTrial:
    if trial.number == trial._trial_id == number:
        return trial
    own = copy.copy(trial)
    own.number = own._trial_id = number
    return own


def _value(trial: FrozenTrial) -> float:
    assert trial.value is not None
    return trial.value


def values_of(trial: FrozenTrial) -> dict[str, Any]:
    """Return the point of a trial by the keys of the space."""
    return {key_of(label): value for label, value in trial.params.items()}


def distribution(parameter: Parameter) -> BaseDistribution:
    """Return Optuna's form of the parameter's range."""
    if parameter.kind == "choice":
        return CategoricalDistribution(parameter.choices)
    if parameter.kind == "int":
        return IntDistribution(int(parameter.low), int(parameter.high), log=parameter.log)
    return FloatDistribution(float(parameter.low), float(parameter.high), log=parameter.log)


def as_template(space: SearchSpace, proposal: Proposal, attributes: Mapping[str, Any]) -> FrozenTrial:
    """Return a RUNNING trial to be written into the persistent study."""
    ranges = [each for each in space.applicable(proposal.values) if each.name in proposal.values]
    return create_trial(
        state=TrialState.RUNNING,
        params={parameter.label: proposal.values[parameter.name] for parameter in ranges},
        distributions={parameter.label: distribution(parameter) for parameter in ranges},
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
