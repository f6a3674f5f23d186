"""`dmltune.simulate`: a whole search in simulated time, on any function that returns a learning curve."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from dmltune.errors import UserError
from dmltune.experiment.fidelity import Fidelity
from dmltune.experiment.problems import Problem
from dmltune.search import samplers, schedulers
from dmltune.search.budget import Plan
from dmltune.search.engine import END, WAIT, Continue, Engine, Start
from dmltune.search.engine_trial import EngineTrial
from dmltune.search.sampling import Proposer
from dmltune.search.simulated_space import SimulatedSpace, simulated_space
from dmltune.search.simulation_input import checked_curve, validated
from dmltune.search.state import Front, Trust
from dmltune.search.winners import Verdict

Curve = Callable[..., tuple[Sequence[float], float]]  # of values and seed, and of `fidelity` for cheap trials
Event = tuple[float, int, dict[str, Any], int, float]  # time, trial, values, step, score
UNLIMITED = 10**9  # trials, when only the time is limited


@dataclass
class Simulated:
    """A search that was simulated. Scores are those of the curves; `winner_set` has the best first."""

    events: list[Event]
    verdict: Verdict | None
    trials: dict[int, EngineTrial]
    seconds: float  # when the last worker had finished
    _sign: int = field(repr=False)
    _front: Front | None = field(default=None, repr=False)
    fidelity: Trust | None = None  # the rank correlation of cheap scores with full ones

    @property
    def winner(self) -> dict[str, Any] | None:
        """The best complete configuration; without one, that with the best score so far."""
        if self.verdict is None:
            return self.best_at(self.seconds)
        return dict(self.trials[self.verdict.winner].values)

    @property
    def winner_set(self) -> list[dict[str, Any]]:
        numbers = self.verdict.winner_set if self.verdict else ()
        return [dict(self.trials[number].values) for number in numbers]

    @property
    def front(self) -> list[dict[str, Any]]:
        """The values of the trials on the front, the best score first; empty without `against`."""
        members = self._front.members if self._front else ()
        return [dict(self.trials[member.trial].values) for member in members]

    def best_at(self, seconds: float) -> dict[str, Any] | None:
        """Return the values that would be chosen after so many seconds; None before anything was seen."""
        from dmltune.search.choice import chosen_after

        seen = [event for event in self.events if event[0] <= seconds]
        return chosen_after([(t, n, s, self._sign * y) for t, n, _, s, y in seen], self.trials)


def simulate(
    search: Mapping[str, Any],
    curve: Curve,
    *,
    sampler: str | Mapping[str, Any] = "auto",
    scheduler: str | Mapping[str, Any] = "asha",
    workers: int = 4,
    trials: int | None = None,
    seconds: float | None = None,
    mode: Literal["max", "min"] = "max",
    validate_every: int = 1,
    max_steps: int,
    seed: int = 0,
    **options: Any,
) -> Simulated:
    """Run a search in simulated time: the samplers, schedulers and repetitions of `dmltune search`.

    `search` is what a YAML file has under `search:`. `curve(values, seed)` returns the score after every step
    and the seconds per step; a score that is not finite ends the trial as failed. It ends after `trials`
    trials or after `seconds`. Options: `require`, `reference_point`, `balanced`, `noise_seeds`,
    `repeat_share`, `stop_at_noise`, as in YAML; `against`, a mapping of names to functions that return a cost
    of the values, asks for the front of the score and these costs; `fidelity`, as in YAML, for cheap trials,
    whose curve is `curve(values, seed, fidelity=settings)`.
    """
    given = validated(locals())
    space = simulated_space(search, given["require"], given["reference_point"], given["balanced"])
    clock = _Clock(seconds)
    plan = _plan(given, space, clock, trials, seed, max_steps)
    chosen = samplers.load(**_named(sampler))
    length = trials or 40
    proposer = Proposer(space, lambda number: chosen.build(length, number), "max", seed)
    rule = schedulers.load(**_named(scheduler)).build(schedulers.Budget(max_steps, validate_every))
    engine = Engine(plan, rule, proposer)
    run = _Run(
        engine,
        curve,
        given["against"] or {},
        clock,
        workers,
        max_steps,
        validate_every,
        1 if mode == "max" else -1,
    )
    run.until_the_end()
    for trial in engine.trials.values():
        if trial.state == "paused":
            engine.end(trial.number, "pruned")
    return Simulated(
        run.events, engine.verdict(), engine.trials, clock.now, run.sign, engine.front(), engine.trust()
    )


def _named(component: str | Mapping[str, Any]) -> dict[str, Any]:
    return {"name": component} if isinstance(component, str) else dict(component)


def _plan(
    options: Mapping[str, Any],
    space: SimulatedSpace,
    clock: _Clock,
    trials: int | None,
    seed: int,
    max_steps: int,
) -> Plan:
    try:
        fidelity = Fidelity.of(options["fidelity"], max_steps) if options["fidelity"] else None
    except Problem as problem:
        raise UserError(f"simulate: {problem}") from None
    total = UNLIMITED if trials is None else trials
    repeats = int(options["repeat_share"] * total)
    return Plan(
        points=total - repeats,
        reference=space.reference_point,
        noise_repeats=max(0, options["noise_seeds"] - 1) if space.reference_point else 0,
        repeats=repeats,
        share=options["repeat_share"],
        seed=seed,
        stop_at_noise=options["stop_at_noise"],
        against=tuple(options["against"] or ()),
        fidelity=fidelity,
        used=clock.used,
    )


@dataclass
class _Clock:
    limit: float | None
    now: float = 0.0

    def used(self) -> float:
        return self.now / self.limit if self.limit else 0.0


@dataclass
class _Job:
    """What a worker does: the next validation of a trial."""

    number: int
    scores: Sequence[float]
    seconds_per_step: float
    step: int
    last: int  # step of the training


@dataclass
class _Run:
    engine: Engine
    curve: Curve
    against: Mapping[str, Callable[[dict[str, Any]], float]]
    clock: _Clock
    workers: int
    max_steps: int
    validate_every: int
    sign: int
    events: list[Event] = field(default_factory=list)

    def until_the_end(self) -> None:
        heap: list[tuple[float, int, _Job]] = []
        order = itertools.count()
        limit = math.inf if self.clock.limit is None else self.clock.limit
        while True:
            while len(heap) < self.workers and (job := self._next_job()) is not None:
                heapq.heappush(heap, (self._end_of(job), next(order), job))
            if not heap or heap[0][0] > limit:
                return
            self.clock.now, _, job = heapq.heappop(heap)
            if self._validated(job):
                heapq.heappush(heap, (self._end_of(job), next(order), job))

    def _next_job(self) -> _Job | None:
        found = self.engine.next()
        if found in (WAIT, END):
            return None
        if isinstance(found, Continue):
            trial = self.engine.trials[found.number]
        else:
            assert isinstance(found, Start)
            trial = EngineTrial(
                len(self.engine.trials),
                found.role,
                dict(found.proposal.values),
                found.seed,
                found.fold,
                found.repeats,
                attributes=found.proposal.trial_attributes,
            )
            trial.costs = {name: float(cost(dict(trial.values))) for name, cost in self.against.items()}
            self.engine.add(trial)
        last, settings = self.max_steps, {}
        if trial.role == "cheap" and (fidelity := self.engine.plan.fidelity):
            settings = {"fidelity": dict(fidelity.settings)}
            last = fidelity.settings.get("max_steps", last)
        scores, seconds_per_step = checked_curve(self.curve(dict(trial.values), trial.seed, **settings))
        step = trial.steps[-1] if trial.steps else 0
        return _Job(trial.number, scores, seconds_per_step, step, min(last, len(scores)))

    def _steps(self, job: _Job) -> int:
        """Return the step of the next validation."""
        return min(job.last, job.step + self.validate_every)

    def _end_of(self, job: _Job) -> float:
        return self.clock.now + (self._steps(job) - job.step) * job.seconds_per_step

    def _validated(self, job: _Job) -> bool:
        """Enter the job's validation; return whether the trial goes on."""
        job.step = self._steps(job)
        score = float(job.scores[job.step - 1])
        trial = self.engine.trials[job.number]
        if not math.isfinite(score):
            self.engine.end(job.number, "failed")
            return False
        self.events.append((self.clock.now, job.number, dict(trial.values), job.step, score))
        decision = self.engine.report(job.number, job.step, self.sign * score)
        if job.step >= job.last:
            self.engine.end(job.number, "complete")
        elif decision == "continue":
            return True
        else:
            self.engine.end(job.number, "pruned" if decision == "stop" else "paused")
        return False
