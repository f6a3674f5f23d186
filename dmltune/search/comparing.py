"""Two trials, or the winners of two searches, side by side.

Notation: configuration A has the scores a_k, B has b_k, where k is a pair of seed and fold. With K pairs that
both have, the lead is the mean of a_k − b_k and its standard error is s·√(2/K); without one it is the
difference of the means, with s·√(1/n_A + 1/n_B). s is the standard deviation between trainings that differ in
nothing but the seed, pooled over all configurations and folds of both searches that were repeated; its
degrees of freedom give the quantile of Student's t for the 95 % interval.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scipy.special import stdtrit

from dmltune import tags
from dmltune.errors import UserError, readable
from dmltune.search.state import Range, TrialRecord
from dmltune.search.stored import StoredSearch, StoredSearches

Scores = Mapping[tuple[int, int], float]  # by seed and fold
ABOUT_THE_SEARCH = (
    *("search", "require", "balanced", "reference_point", "baseline", "presets", "sampler"),
    *("scheduler", "trials", "noise_seeds", "repeat_share", "stop_at_noise", "fidelity"),
)


@dataclass(frozen=True)
class ComparedTrial:
    """One of the two. `chosen` means the best of its search, whose score is optimistic."""

    label: str
    search: StoredSearch = field(repr=False)
    record: TrialRecord
    chosen: bool
    settings: Mapping[str, Any]
    scores: Scores

    @property
    def best_step(self) -> int | None:
        """The step of the best validation."""
        curve = {step: score for step, score in self.curve if score == self.record.best}
        return min(curve, default=None)

    @property
    def curve(self) -> list[tuple[int, float]]:
        trial = next(trial for trial in self.search.trials if trial.number == self.record.number)
        return sorted(trial.intermediate_values.items())


@dataclass(frozen=True)
class PooledNoise:
    """The standard deviation between equal trainings with other seeds, and its degrees of freedom."""

    std: float
    freedom: int


@dataclass(frozen=True)
class TrialComparison:
    """`lead` is that of the left over the right: positive is good for the left, whatever the mode is."""

    left: ComparedTrial
    right: ComparedTrial
    differences: tuple[tuple[str, Any, Any], ...]  # key, left, right; a key that is not set is None
    obstacles: tuple[str, ...]  # why the scores cannot be compared
    lead: float | None = None
    interval: Range | None = None
    noise: PooledNoise | None = None
    paired: int = (
        0  # trainings of both with the same seed and fold: the lead is over these, where there are any
    )

    @property
    def lead_is_noise(self) -> bool | None:
        """Whether 0 is in the interval; None without one."""
        return None if self.interval is None else self.interval.low <= 0.0 <= self.interval.high


def compare(searches: StoredSearches, left: str, right: str) -> TrialComparison:
    """Compare `NAME` (the winner of a search) or `NAME/NUMBER` (a trial) with another."""
    a, b = compared_trial(searches, left), compared_trial(searches, right)
    obstacles = tuple(reasons_against(a, b))
    differences = tuple(different_settings(a, b))
    if obstacles or not a.scores or not b.scores:
        return TrialComparison(a, b, differences, obstacles)
    sign = 1 if a.search.mode == "max" else -1
    noise = pooled_noise([a.search] if a.search.name == b.search.name else [a.search, b.search])
    lead, error = lead_of(a.scores, b.scores)
    same = (a.search.name, configuration_of(a.record)) == (b.search.name, configuration_of(b.record))
    interval = None
    if noise is not None and not same:
        interval = t_interval(sign * lead, error * noise.std, noise.freedom)
    paired = len(a.scores.keys() & b.scores.keys())
    return TrialComparison(a, b, differences, obstacles, sign * lead, interval, noise, paired)


def compared_trial(searches: StoredSearches, text: str) -> ComparedTrial:
    name, slash, number = text.partition("/")
    if slash and not (number.isdigit() and len(number) < 10):
        raise UserError(f"a trial must be NAME/NUMBER, such as demo/3; got {readable(text)}")
    search = searches.get(name)
    record = search.row(int(number)) if slash else search.winner
    if record is None:
        raise UserError(f"search '{name}' has no complete trial yet. Name a trial: {name}/0")
    settings = search.experiment_of(record).settings()
    settings = {key: value for key, value in settings.items() if key.split(".")[0] not in ABOUT_THE_SEARCH}
    if not slash:
        whole = search.experiment.settings()
        settings |= {key: v for key, v in whole.items() if key.split(".")[0] in ABOUT_THE_SEARCH}
    chosen = record.number in {row.number for row in (search.winner, *search.best()[:1]) if row is not None}
    scores = scores_by_configuration(search).get(configuration_of(record), {})
    return ComparedTrial(text, search, record, chosen, settings, scores or own_score(search, record))


def configuration_of(record: TrialRecord) -> int:
    """Return the number of the trial that first had the configuration of this one."""
    if record.repeats is None:
        return 0 if record.role == "repeat" else record.number  # older versions repeat trial 0 alone
    return record.repeats


def scores_by_configuration(search: StoredSearch) -> dict[int, dict[tuple[int, int], float]]:
    """Return the scores of all complete trials: configuration → seed and fold → score."""
    scores: defaultdict[int, dict[tuple[int, int], float]] = defaultdict(dict)
    for row in search.rows:
        if row.state == "complete" and row.best is not None:
            scores[configuration_of(row)][key_of(search, row)] = row.best
    return dict(scores)


def own_score(search: StoredSearch, record: TrialRecord) -> Scores:
    """Return the best score so far of a trial that is not complete."""
    return {} if record.best is None else {key_of(search, record): record.best}


def key_of(search: StoredSearch, record: TrialRecord) -> tuple[int, int]:
    seed = search.experiment.seed if record.seed is None else record.seed
    return seed, search.experiment.fold if record.fold is None else record.fold


def pooled_noise(searches: Iterable[StoredSearch]) -> PooledNoise | None:
    """Return the noise of all repeated configurations; None when nothing was repeated on one fold."""
    cells: list[list[float]] = []
    for search in searches:
        for scores in scores_by_configuration(search).values():
            by_fold: defaultdict[int, list[float]] = defaultdict(list)
            for (_, fold), score in scores.items():
                by_fold[fold].append(score)
            cells += by_fold.values()
    return pooled(cells)


def pooled(cells: Sequence[Sequence[float]]) -> PooledNoise | None:
    """Return √(Σ (x − mean of its cell)² / Σ (n − 1)) with its degrees of freedom Σ (n − 1)."""
    freedom = sum(len(cell) - 1 for cell in cells)
    if freedom < 1:
        return None
    squares = sum((score - statistics.fmean(cell)) ** 2 for cell in cells for score in cell)
    return PooledNoise(math.sqrt(squares / freedom), freedom)


def lead_of(a: Scores, b: Scores) -> tuple[float, float]:
    """Return the lead of `a`, and its standard error in units of the noise."""
    common = sorted(a.keys() & b.keys())
    if common:
        return statistics.fmean(a[key] - b[key] for key in common), math.sqrt(2 / len(common))
    lead = statistics.fmean(a.values()) - statistics.fmean(b.values())
    return lead, math.sqrt(1 / len(a) + 1 / len(b))


def t_interval(mean: float, error: float, freedom: int) -> Range:
    half = float(stdtrit(freedom, 0.975)) * error
    return Range(mean, mean - half, mean + half)


def reasons_against(a: ComparedTrial, b: ComparedTrial) -> list[str]:
    """Return why the scores of two trials cannot be compared."""
    reasons = []
    pairs = (
        ("metric", a.search.metric, b.search.metric),
        ("data", a.search.labels.get(tags.DATA), b.search.labels.get(tags.DATA)),
        ("protocol", a.search.labels.get(tags.PROTOCOL), b.search.labels.get(tags.PROTOCOL)),
    )
    reasons += [f"other {what}: {one} and {other}" for what, one, other in pairs if one != other]
    folds = [sorted({fold for _, fold in side.scores}) for side in (a, b)]
    if folds[0] and folds[1] and not set(folds[0]) & set(folds[1]):
        shown = [", ".join(map(str, each)) for each in folds]
        reasons.append(f"other validation classes: fold {shown[0]} and fold {shown[1]}")
    return reasons


def different_settings(a: ComparedTrial, b: ComparedTrial) -> list[tuple[str, Any, Any]]:
    """Return the keys in which two configurations differ, with both values."""
    one, other = a.settings, b.settings
    if ("trials" in one) != ("trials" in other):  # a search against a trial: only what both trained
        one, other = (
            {key: value for key, value in each.items() if key.split(".")[0] not in ABOUT_THE_SEARCH}
            for each in (one, other)
        )
    keys = [key for key in dict.fromkeys((*one, *other)) if key != "about"]
    return [(key, one.get(key), other.get(key)) for key in keys if one.get(key) != other.get(key)]
