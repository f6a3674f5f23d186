"""What is known about a running search, for the live table, log lines, the summary and JSON."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

TrialRole = Literal["reference", "baseline", "repeat", "search", "cheap"]
TrialState = Literal["running", "paused", "complete", "pruned", "failed", "interrupted"]


@dataclass
class TrialRecord:
    """One trial. Scores are fractions on the validation classes."""

    number: int
    role: TrialRole
    values: dict[str, Any]
    state: TrialState = "running"
    step: int = 0
    max_steps: int = 0
    score: float | None = None  # the latest validation
    best: float | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    reason: str = ""
    run_id: str = ""
    idle: dict[str, str] = field(default_factory=dict)  # searched parameters without effect, and why
    seed: int | None = None  # of a repetition; the other trials have the experiment's
    fold: int | None = None  # likewise
    repeats: int | None = None  # the trial whose configuration a repetition trains
    costs: dict[str, float] = field(default_factory=dict)  # what `objective.against` names
    best_step: int | None = None  # of the best validation; 0: the network before training

    @property
    def untrained(self) -> bool:
        """Whether training made nothing better: the stored model is the network before its first step."""
        return self.state == "complete" and self.best_step == 0


@dataclass(frozen=True)
class Speed:
    """The first and the latest step of a running trial that this session has seen, with their times."""

    first_step: int
    first_time: float
    step: int
    time: float

    @property
    def seconds_a_step(self) -> float | None:
        steps = self.step - self.first_step
        return (self.time - self.first_time) / steps if steps > 0 else None


@dataclass
class SearchState:
    """All trials of a search. Readers in other threads take a `snapshot`."""

    name: str
    space_name: str
    metric: str
    mode: Literal["max", "min"]
    trials_planned: int
    concurrent: int = 1
    rows: dict[int, TrialRecord] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)  # a clock that nobody sets, as all times here
    deadline: float | None = None
    speeds: dict[int, Speed] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    def snapshot(self) -> SearchState:
        """Return a copy that does not change while it is drawn."""
        with self._lock:
            rows, speeds = copy.deepcopy(self.rows), dict(self.speeds)
        return SearchState(
            self.name, self.space_name, self.metric, self.mode, self.trials_planned, self.concurrent, rows,
            self.started, self.deadline, speeds,
        )  # fmt: skip

    def put(self, record: TrialRecord) -> None:
        with self._lock:
            self.rows[record.number] = copy.deepcopy(record)

    def note_step(self, number: int, step: int) -> None:
        """Note that a running trial has reached this step; the step of a validation is in its record."""
        now = time.monotonic()
        with self._lock:
            before = self.speeds.get(number)
            if before is None or step < before.first_step:
                self.speeds[number] = Speed(step, now, step, now)
            elif step > before.step:
                self.speeds[number] = Speed(before.first_step, before.first_time, step, now)

    def step_of(self, row: TrialRecord) -> int:
        """Return the step that a trial has reached, between two validations too."""
        speed = self.speeds.get(row.number) if row.state == "running" else None
        return max(row.step, speed.step) if speed else row.step

    def complete(self) -> list[TrialRecord]:
        """Return the complete trials that have a score, best first."""
        sign = -1 if self.mode == "max" else 1
        done = [row for row in self.rows.values() if row.state == "complete" and row.best is not None]
        return sorted(done, key=lambda row: (sign * (row.best or 0.0), row.number))

    def best_row(self, *roles: TrialRole) -> TrialRecord | None:
        """Return the best complete trial, of these roles when some are given."""
        return next((row for row in self.complete() if not roles or row.role in roles), None)

    def seconds_left(self) -> float | None:
        """Estimate from finished trials and the speed of running ones; None before the first few steps."""
        full = [row for row in self.rows.values() if row.role != "cheap"]
        ended = [row for row in full if row.state in ("complete", "pruned") and row.seconds > 0]
        running = [row for row in self.rows.values() if row.state == "running" and row.max_steps]
        whole = {row.number: length for row in running if (length := self._whole(row)) is not None}
        lengths = [row.seconds for row in ended] or list(whole.values())
        limit = None if self.deadline is None else max(0.0, self.deadline - time.monotonic())
        if not lengths:
            return limit
        usual = sum(lengths) / len(lengths)
        under_way = []
        for row in running:
            length, share = whole.get(row.number), self.step_of(row) / row.max_steps
            under_way.append(max(0.0, usual - row.seconds if length is None else length * (1 - share)))
        waiting = max(0, self.trials_planned - len(full))
        left = (sum(under_way) + waiting * usual) / max(1, self.concurrent)
        left = max(left, max(under_way, default=0.0))
        return left if limit is None else min(left, limit)

    def _whole(self, row: TrialRecord) -> float | None:
        """Return how long a running trial takes in all, by its speed or by its last validation."""
        speed = self.speeds.get(row.number)
        if speed is not None and speed.seconds_a_step is not None:
            return speed.seconds_a_step * row.max_steps
        return row.seconds * row.max_steps / row.step if row.step else None


@dataclass(frozen=True)
class SearchEvent:
    """What a watcher of a search is called with."""

    kind: Literal["started", "progress", "finished", "message"]
    record: TrialRecord | None
    text: str
    state: SearchState


Watch = Callable[[SearchEvent], None]


@dataclass(frozen=True)
class Noise:
    """The scores of the reference point with different seeds, and their standard deviation."""

    scores: tuple[float, ...]
    std: float


@dataclass(frozen=True)
class Range:
    """An estimate with its 95 % interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Outcome:
    """What a search found, with what is noise in it.

    `corrected` is the winner's score on these classes, corrected for its having been chosen; `winner_set` are
    the trials that cannot be told from the winner, the best first; `lead` is the winner's over the baseline
    (positive is good). Without repetitions nothing is known of the noise, and there are no intervals.
    """

    winner: int
    winner_set: tuple[int, ...]
    noise: float | None
    corrected: Range | None = None
    lead: Range | None = None
    lead_is_noise: bool | None = None


@dataclass(frozen=True)
class FrontMember:
    """A trial that no other one dominates. `score` is what is believed of its true mean."""

    trial: int
    score: float
    interval: Range | None  # without repetitions nothing is known of the noise
    costs: dict[str, float]


@dataclass(frozen=True)
class Front:
    """The trials whose score no other one reaches at costs that are not higher; the best score first.

    `knee` is the member farthest beyond the line between the extremes, beyond which a little more score costs
    much.
    """

    against: tuple[str, ...]
    members: tuple[FrontMember, ...]
    knee: int | None = None


@dataclass(frozen=True)
class Trust:
    """What the first points say about a cheap fidelity: the rank correlation with full scores, and its 90 %
    interval."""

    pairs: int
    correlation: float
    low: float
    high: float
    threshold: float
    trusted: bool


@dataclass(frozen=True)
class FidelityResult:
    """How the cheap trainings of a search were used. `cost` is that of one as a share of a full training.

    `trust` is None when the search ended before the first points were measured; `measured_cost` is the share
    of time that the cheap trainings of these have taken.
    """

    settings: dict[str, Any]
    cost: float
    cheap_trials: int
    trust: Trust | None
    measured_cost: float | None = None


@dataclass(frozen=True)
class IdleParameter:
    """A searched parameter that acted in less than half of the `trials` that had it."""

    name: str
    acted: int
    trials: int
    why: str


@dataclass(frozen=True)
class SearchResult:
    """The end of a search. Nothing in it comes from a test class."""

    name: str
    space_name: str
    metric: str
    mode: Literal["max", "min"]
    protocol: str
    rows: tuple[TrialRecord, ...]
    winner: TrialRecord | None
    reference: TrialRecord | None
    baseline: TrialRecord | None
    untrained_score: float | None
    experiment_id: str
    parent_run_id: str
    store: Path | str  # a folder, or an address
    interrupted: bool = False
    reason: str = ""  # why it was interrupted: stopped | time is up
    noise: Noise | None = None
    verdict: Outcome | None = None
    front: Front | None = None
    fidelity: FidelityResult | None = None
    idle_parameters: tuple[IdleParameter, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able document; scores are fractions."""
        document = asdict(self)
        document["store"] = str(self.store)
        return document
