"""Other searches on the simulated clock of `search_public.py`. A higher score is better.

Each is a class with `suggest`, `observe` and `end`. They know nothing of dmltune's engine; only the ranges of
the search space are read by its parser.

| name | sampler | stopping | stopped trials |
|---|---|---|---|
| random | random | none | |
| tpe | Optuna's TPE with its constant liar | none | |
| gp | Optuna's GP | none | |
| stock-ray | Optuna's TPE | Ray Tune's ASHA, its defaults | COMPLETE with their last score |
| topk | random | all until 1/9, the best go on | |
| gp-line | Optuna's GP | ASHA, reduction 3, 2 rungs | COMPLETE with a straight line's prediction |
"""

from __future__ import annotations

import heapq
import itertools
import math
import warnings
from bisect import insort
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import optuna
from curve_table import CurveTable
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, GPSampler, RandomSampler, TPESampler
from optuna.trial import TrialState, create_trial

from dmltune.search.sampling import distribution
from dmltune.search.simulated_space import simulated_space

Values = dict[str, Any]
Event = tuple[float, int, Values, float]  # time, trial, values, score

warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
optuna.logging.set_verbosity(optuna.logging.ERROR)


class Rival(Protocol):
    def suggest(self) -> tuple[int, Values]:
        """Return the number of the next trial, new or paused, and its values."""

    def observe(self, number: int, step: int, score: float) -> bool:
        """Enter a validation before the last one; return whether the trial goes on."""

    def end(self, number: int, score: float | None) -> None:
        """Enter the score of a complete trial; None when it diverged."""


def run(rival: Rival, table: CurveTable, *, workers: int, seconds: float, seed: int) -> list[Event]:
    """Return all validations of a search in simulated time."""
    events: list[Event] = []
    heap: list[tuple[float, int, int, Values, int]] = []
    order = itertools.count()
    reached: dict[int, int] = {}
    now = 0.0
    while now < seconds:
        while len(heap) < workers:
            number, values = rival.suggest()
            heapq.heappush(heap, (now + 1.0, next(order), number, values, reached.get(number, 0) + 1))
        now, _, number, values, step = heapq.heappop(heap)
        if now > seconds:
            break
        reached[number] = step
        score = table.curve(values, seed)[0][step - 1]
        if not math.isfinite(score):
            rival.end(number, None)
            continue
        events.append((now, number, values, score))
        if step == table.max_steps:
            rival.end(number, score)
        elif rival.observe(number, step, score):
            heapq.heappush(heap, (now + 1.0, next(order), number, values, step + 1))
    return events


def best_at(events: list[Event], seconds: float) -> Values | None:
    """Return the values with the best score so far; None before anything was seen."""
    seen = [event for event in events if event[0] <= seconds]
    return max(seen, key=lambda event: event[3])[2] if seen else None


def _ranges(table: CurveTable) -> dict[str, BaseDistribution]:
    return {each.name: distribution(each) for each in simulated_space(table.search).parameters}


class OptunaSearch:
    """A sampler of Optuna in a study, without stopping. Diverged trials are told as failed."""

    def __init__(self, table: CurveTable, sampler: BaseSampler) -> None:
        self.ranges = _ranges(table)
        self.study = optuna.create_study(direction="maximize", sampler=sampler)

    def suggest(self) -> tuple[int, Values]:
        trial = self.study.ask(self.ranges)
        return trial.number, dict(trial.params)

    def observe(self, number: int, step: int, score: float) -> bool:
        return True

    def end(self, number: int, score: float | None) -> None:
        self.study.tell(number, score, state=TrialState.FAIL if score is None else TrialState.COMPLETE)


@dataclass
class RayAsha:
    """Ray Tune's AsyncHyperBandScheduler: one bracket, and a quantile over those that came before."""

    max_steps: int
    first: int = 1
    reduction: int = 4
    scores: dict[int, list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rung = self.first
        while rung < self.max_steps:
            self.scores[rung] = []
            rung *= self.reduction

    def goes_on(self, step: int, score: float) -> bool:
        if step not in self.scores:
            return True
        earlier = self.scores[step]
        cutoff = np.percentile(earlier, 100 * (1 - 1 / self.reduction)) if earlier else -math.inf
        earlier.append(score)
        return bool(score >= cutoff)


class StockRay(OptunaSearch):
    """`OptunaSearch` with `ASHAScheduler`, both with their defaults."""

    def __init__(self, table: CurveTable, seed: int) -> None:
        super().__init__(table, TPESampler(seed=seed))
        self.asha = RayAsha(table.max_steps)

    def observe(self, number: int, step: int, score: float) -> bool:
        if goes_on := self.asha.goes_on(step, score):
            return goes_on
        self.study.tell(number, score)
        return False


class TopK(OptunaSearch):
    """Random trials until 1/9 of their length for half of the budget; then the best go on."""

    def __init__(self, table: CurveTable, seed: int, budget: int) -> None:
        super().__init__(table, RandomSampler(seed=seed))
        self.rung = max(1, table.max_steps // 9)
        self.trials = budget * table.max_steps // (2 * self.rung) if table.max_steps > 1 else math.inf
        self.paused: list[tuple[float, int]] = []
        self.values: dict[int, Values] = {}

    def suggest(self) -> tuple[int, Values]:
        if len(self.values) >= self.trials and self.paused:
            number = self.paused.pop()[1]
        else:
            number, values = super().suggest()
            self.values[number] = values
        return number, self.values[number]

    def observe(self, number: int, step: int, score: float) -> bool:
        if step == self.rung:
            insort(self.paused, (score, number))
        return step != self.rung


class GpLine:
    """The first try of the issue: GP and ASHA, with stopped trials entered by a straight line.

    The line predicts the final score from the score at the step where the trial was stopped, by least squares
    over the complete trials. A diverged trial has the worst score seen.
    """

    def __init__(self, table: CurveTable, seed: int) -> None:
        self.ranges, self.seed = _ranges(table), seed
        last = table.max_steps
        self.rungs = {max(1, last // 3**k) for k in (1, 2)} - {last}
        self.at_rung: dict[int, list[float]] = {rung: [] for rung in self.rungs}
        self.values: dict[int, Values] = {}
        self.scores: dict[int, dict[int, float]] = {}
        self.final: dict[int, float | None] = {}
        self.stopped: dict[int, int] = {}

    def suggest(self) -> tuple[int, Values]:
        sampler = GPSampler(seed=self.seed + 1000 * len(self.values))
        study = optuna.create_study(direction="maximize", sampler=sampler)
        study.add_trials([self._entered(number) for number in self.values])
        trial = study.ask(self.ranges)
        self.values[trial.number] = dict(trial.params)
        self.scores[trial.number] = {}
        return trial.number, dict(trial.params)

    def observe(self, number: int, step: int, score: float) -> bool:
        if step not in self.rungs:
            return True
        self.scores[number][step] = score
        rung = self.at_rung[step]
        insort(rung, score)
        if score >= rung[-max(1, math.ceil(len(rung) / 3))]:
            return True
        self.stopped[number] = step
        return False

    def end(self, number: int, score: float | None) -> None:
        self.final[number] = score

    def _entered(self, number: int) -> optuna.trial.FrozenTrial:
        value: float | None = None
        if number in self.stopped:
            value = self._predicted(self.stopped[number], self.scores[number][self.stopped[number]])
        elif number in self.final:
            final = self.final[number]
            value = self._worst() if final is None else final
        return create_trial(
            state=TrialState.RUNNING if value is None else TrialState.COMPLETE,
            value=value,
            params=self.values[number],
            distributions=self.ranges,
        )

    def _predicted(self, step: int, score: float) -> float:
        pairs = [
            (self.scores[number][step], final)
            for number, final in self.final.items()
            if final is not None and step in self.scores[number]
        ]
        if len({x for x, _ in pairs}) < 3:
            return score
        x, y = np.array(pairs).T
        slope, offset = np.polyfit(x, y, 1)
        return float(offset + slope * score)

    def _worst(self) -> float | None:
        seen = [score for each in self.scores.values() for score in each.values()]
        finals = [score for score in self.final.values() if score is not None]
        return min(seen + finals, default=None)


def make_rival(name: str, table: CurveTable, seed: int, budget: int) -> Rival:
    """Return the search with this name for a budget of so many full trainings."""
    if name == "stock-ray":
        return StockRay(table, seed)
    if name == "topk":
        return TopK(table, seed, budget)
    if name == "gp-line":
        return GpLine(table, seed)
    samplers: dict[str, Any] = {"random": RandomSampler, "tpe": _tpe, "gp": GPSampler}
    return OptunaSearch(table, samplers[name](seed=seed))


def _tpe(seed: int) -> TPESampler:
    return TPESampler(seed=seed, constant_liar=True)


RIVALS = ("random", "tpe", "gp", "stock-ray", "topk", "gp-line")
SLOW = ("gp", "gp-line")
