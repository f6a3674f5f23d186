"""What the page of a search shows, read from its study and its run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dmltune.errors import UserError
from dmltune.experiment.tree import flatten
from dmltune.search.comparing import (
    PooledNoise,
    configuration_of,
    pooled_noise,
    scores_by_configuration,
    t_interval,
)
from dmltune.search.exporting import training_tree, yaml_of
from dmltune.search.findings import idle_parameters
from dmltune.search.importance import Importances, importances, responses
from dmltune.search.linear_algebra import one_thread
from dmltune.search.restoring import PROJECTIONS
from dmltune.search.state import FidelityResult, IdleParameter, Range, TrialRecord, Trust
from dmltune.search.stored import RESULT, StoredSearch
from dmltune.search.surface import Surface, surface


@dataclass(frozen=True)
class ConfigurationScores:
    """All trainings of one configuration: their scores, and their mean with its 95 % interval."""

    number: int
    scores: tuple[float, ...]
    mean: float
    interval: Range | None


@dataclass(frozen=True)
class TrialCurve:
    """The scores of one trial by step, and the steps at which another projection of CCP had ended."""

    record: TrialRecord
    points: tuple[tuple[int, float], ...]
    projections: tuple[int, ...]


@dataclass(frozen=True)
class Dropped:
    """The trials that ended early at one step. `best` is the best score among them at that step."""

    step: int
    trials: int
    best: float | None


@dataclass(frozen=True)
class Span:
    """When a trial was begun and ended, in seconds since the first one began."""

    record: TrialRecord
    start: float
    end: float


class SearchPageData:
    """One search. Importances and surface are None, with a reason, where there are too few trials."""

    def __init__(self, search: StoredSearch, gallery: Mapping[str, Any] | None = None) -> None:
        self.search = search
        self.gallery = gallery
        self.winner = search.winner
        self.reference = self._first("reference")
        self.baseline = self._first("baseline")
        self.importances: Importances | None = None
        self.surface: Surface | None = None
        self.too_few = ""
        try:
            with one_thread():
                self.importances = importances(search)
                self.surface = surface(responses(search), self.importances)
        except UserError as error:
            self.too_few = str(error)

    def _first(self, role: str) -> TrialRecord | None:
        return next((row for row in self.search.rows if row.role == role), None)

    @cached_property
    def noise(self) -> PooledNoise | None:
        return pooled_noise([self.search])

    @cached_property
    def untrained(self) -> float | None:
        """The score before any step, which is the same for all trials of one network."""
        return next(
            (t.intermediate_values[0] for t in self.search.trials if 0 in t.intermediate_values), None
        )

    @cached_property
    def _scores(self) -> dict[int, dict[tuple[int, int], float]]:
        return scores_by_configuration(self.search)

    def scores_of(self, record: TrialRecord | None) -> ConfigurationScores | None:
        """Return the trainings of the configuration of a trial; None when none is complete."""
        if record is None or not (own := self._scores.get(configuration_of(record))):
            return None
        scores = tuple(own.values())
        mean = sum(scores) / len(scores)
        interval = None
        if self.noise is not None:
            interval = t_interval(mean, self.noise.std / len(scores) ** 0.5, self.noise.freedom)
            most = 1.0 if self.search.mode == "max" else math.inf  # such scores are shares, the others radii
            interval = Range(mean, max(0.0, interval.low), min(most, interval.high))
        return ConfigurationScores(configuration_of(record), scores, mean, interval)

    @cached_property
    def idle(self) -> tuple[IdleParameter, ...]:
        return idle_parameters(self.search.experiment.space.names, self.search.rows)

    @cached_property
    def curves(self) -> tuple[TrialCurve, ...]:
        records = {row.number: row for row in self.search.rows}
        return tuple(
            TrialCurve(
                records[trial.number],
                tuple(sorted(trial.intermediate_values.items())),
                ended_at(trial.user_attrs.get(PROJECTIONS, {})),
            )
            for trial in self.search.trials
            if trial.intermediate_values
        )

    @cached_property
    def dropped(self) -> tuple[Dropped, ...]:
        """The stopped, paused and failed trials by the step at which they ended, the first step first."""
        early = [row for row in self.search.rows if row.state in ("pruned", "paused")]
        pick = max if self.search.mode == "max" else min
        return tuple(
            Dropped(
                step,
                count,
                pick((row.best for row in early if row.step == step and row.best is not None), default=None),
            )
            for step, count in sorted(Counter(row.step for row in early).items())
        )

    @property
    def failed(self) -> list[TrialRecord]:
        return [row for row in self.search.rows if row.state == "failed"]

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        trials = [trial for trial in self.search.trials if trial.datetime_start is not None]
        first = min((trial.datetime_start for trial in trials if trial.datetime_start), default=None)
        records = {row.number: row for row in self.search.rows}
        spans = []
        for trial in trials:
            record = records[trial.number]
            if first is None or trial.datetime_start is None:
                continue
            start = (trial.datetime_start - first).total_seconds()
            end = start + record.seconds
            if trial.datetime_complete is not None:
                end = max(start, (trial.datetime_complete - first).total_seconds())
            spans.append(Span(record, start, end))
        return tuple(spans)

    @cached_property
    def cost(self) -> float:
        """The working time of all processes together, in seconds."""
        workers = self.search.options.workers if self.search.options else 1
        return workers * sum(row.seconds for row in self.search.rows)

    @cached_property
    def yaml(self) -> str:
        """The winner's configuration, as `dmltune export-config` prints it."""
        if self.winner is None:
            return ""
        return yaml_of(training_tree(self.search.experiment_of(self.winner)), self.search, self.winner)

    @cached_property
    def baseline_values(self) -> dict[str, Any]:
        return flatten(self.search.experiment.baseline) if self.search.experiment.baseline else {}

    def measured(self, record: TrialRecord) -> list[dict[str, float]]:
        """Return all metrics of a trial by step, from its run; nothing when the run cannot be read."""
        if not record.run_id:
            return []
        try:
            return self.search.tracker.curve(record.run_id)
        except Exception:  # of MLflow or its server: a page without this figure
            return []

    @cached_property
    def fidelity(self) -> FidelityResult | None:
        """How cheap trainings were used, as the end of the last session has stored it."""
        tree = self.search.tracker.read_json(self.search.run_id, RESULT)
        found = tree.get("fidelity") if isinstance(tree, Mapping) else None
        if not isinstance(found, Mapping):
            return None
        try:
            trust = Trust(**found["trust"]) if found["trust"] else None
            return FidelityResult(**{**found, "trust": trust})
        except (KeyError, TypeError):
            return None  # of another version

    @cached_property
    def trained_both_ways(self) -> list[tuple[TrialRecord, TrialRecord]]:
        """The cheap and the full training of each point that has both, complete."""
        full = {_point(row): row for row in self.search.points() if row.state == "complete"}
        cheap = [row for row in self.search.rows if row.role == "cheap"]
        return [(row, full[_point(row)]) for row in cheap if _point(row) in full]

    def other_members(self) -> Sequence[int]:
        """Return the trials that cannot be told from the winner, without it."""
        outcome = self.search.outcome
        chosen = self.winner.number if self.winner else None
        return [number for number in outcome.winner_set if number != chosen] if outcome else []


def _point(record: TrialRecord) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(record.values.items()))


def ended_at(ended: Mapping[str, int]) -> tuple[int, ...]:
    """Return the steps at which the number of ended projections had grown."""
    steps = sorted((int(step), count) for step, count in ended.items())
    return tuple(step for (step, count), (_, before) in zip(steps[1:], steps, strict=False) if count > before)
