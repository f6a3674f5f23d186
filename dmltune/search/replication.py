"""Which configuration is trained again, with which seed or fold: the noise, races of folds, candidates."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from dmltune.search import fold_race
from dmltune.search.budget import Plan
from dmltune.search.engine_trial import EngineTrial
from dmltune.search.repetition import next_repetition
from dmltune.search.score_table import ScoreTable

Block = tuple[int, int]  # seed and fold


@dataclass(frozen=True)
class Again:
    """Train the configuration of this trial with this seed and fold."""

    configuration: int
    seed: int
    fold: int


class Replication:
    """Decides from the trials alone, so that a resumed search decides what an undisturbed one would."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._compared = ComparedTrials()

    def of_the_noise(self, trials: Collection[EngineTrial]) -> Again | None:
        """Return the next repetition of the reference point, if the plan has one more."""
        reference = next((trial for trial in trials if trial.role == "reference"), None)
        if reference is None:
            return None
        for index in range(1, 1 + self._plan.noise_repeats):
            seed = reference.seed + index
            if not _has(trials, reference.number, (seed, reference.fold)):
                return Again(reference.number, seed, reference.fold)
        return None

    def of_a_fold(self, trials: Collection[EngineTrial]) -> Again | None:
        """Return the next fold of a configuration that its race has not dropped."""
        if self._plan.folds < 2:
            return None
        folds = range(self._plan.first_fold, self._plan.first_fold + self._plan.folds)
        complete = _scores_by_fold(trials)
        first = [trial for trial in trials if trial.repeats is None and trial.score is not None]
        whole = {number: s for number, s in complete.items() if all(fold in s for fold in folds)}
        for trial in sorted(first, key=lambda trial: (not trial.protected, trial.number)):
            own = complete[trial.number]
            begun = [fold for fold in folds if _has(trials, trial.number, (trial.seed, fold))]
            if len(begun) == len(folds) or len(own) < len(begun):
                continue  # it has all, or one is under way
            if trial.protected or not self._dropped(own, whole, complete, folds):
                return Again(trial.number, trial.seed, folds[len(begun)])
        return None

    def _dropped(
        self,
        own: dict[int, float],
        whole: dict[int, dict[int, float]],
        every: dict[int, dict[int, float]],
        folds: Sequence[int],
    ) -> bool:
        """Return whether this configuration has lost its race against the best one with all folds.

        `every` configuration with two folds or more tells something of the noise, also one that was dropped.
        """
        if not whole:
            return False
        incumbent = max(whole.values(), key=lambda scores: statistics.fmean(scores[fold] for fold in folds))
        shared = [fold for fold in folds if fold in own]
        rows = [[row[fold] for fold in folds] for row in whole.values()]
        told = [[row.get(fold, math.nan) for fold in folds] for row in every.values()]
        noise, degrees = fold_race.fold_noise(told)
        return fold_race.drop(
            [own[fold] for fold in shared],
            [incumbent[fold] for fold in shared],
            k=len(folds),
            noise=noise,
            degrees=degrees,
            chosen_from=1 if noise is None else fold_race.near_best(rows, noise),
        )

    def of_a_candidate(self, trials: Collection[EngineTrial], left: int) -> Again | None:
        """Return the repetition that tells most about which configuration is best.

        `trials` are the complete ones and all repetitions; the others tell nothing here.
        """
        table, others = self._compared.of(trials)
        under_way = [t for t in others if t.repeats is not None and t.state == "running"]
        found = next_repetition(
            table,
            spare=left,
            pending=[(trial.configuration, trial.block) for trial in under_way],
        )
        if found is None or _has(others, found.candidate, found.block):
            return None  # the second: it failed before
        return Again(found.candidate, *found.block)


class ComparedTrials:
    """The score table of trials that are told again and again: what a complete one scored is read once."""

    def __init__(self) -> None:
        self._table = ScoreTable()
        self._entered: dict[int, EngineTrial] = {}

    def of(self, trials: Collection[EngineTrial]) -> tuple[ScoreTable, list[EngineTrial]]:
        """Return the table of the trials, which are in the order of their numbers, and those not in it.

        The table is that of `ScoreTable.of`: when a trial ends after one that follows it, it is built anew,
        as the order of scores decides between equals.
        """
        new = [trial for trial in trials if self._entered.get(trial.number) is not trial]
        last = next(reversed(self._entered), -1)
        if len(trials) - len(new) != len(self._entered) or any(t.number < last and _is_over(t) for t in new):
            self._table, self._entered = ScoreTable(), {}
            new = list(trials)
        others = []
        for trial in new:
            if self._table.take(trial):
                self._entered[trial.number] = trial
            else:
                others.append(trial)
        return self._table, others


def _is_over(trial: EngineTrial) -> bool:
    return trial.role != "cheap" and trial.score is not None and math.isfinite(trial.score)


def _has(trials: Collection[EngineTrial], configuration: int, block: Block) -> bool:
    return any(trial.configuration == configuration and trial.block == block for trial in trials)


def _scores_by_fold(trials: Collection[EngineTrial]) -> dict[int, dict[int, float]]:
    """Return the scores of each configuration's own seed by fold."""
    seeds = {trial.number: trial.seed for trial in trials if trial.repeats is None}
    scores: dict[int, dict[int, float]] = {}
    for trial in trials:
        if trial.score is not None and trial.seed == seeds.get(trial.configuration):
            scores.setdefault(trial.configuration, {})[trial.fold] = trial.score
    return scores
