"""What travels between a trial and the workers that train it: plain, numbered, idempotent.

The broker and Tune's actors import this file. They compute nothing, so it loads neither torch nor YAML.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dmltune.core.run import Progress
    from dmltune.experiment import Experiment
    from dmltune.ledger import LedgerEntry
    from dmltune.resources import Locations

DISK_FULL = "no space is left on the disk"  # begins a failure that is not the configuration's
LAST = 1_000_000  # the number of a report after which nothing comes


@dataclass(frozen=True)
class Order:
    """Train this experiment in this folder; a checkpoint in it is continued.

    `experiment` is the tree of a validated experiment, which workers do not validate again. `opening` is the
    entry of the test ledger that lets the workers measure on the test classes at the end. `untrained` are the
    metrics of the same network before its first step, when another trial has measured them already.
    With `known_costs`, by architecture, the reports carry what the model costs to use. `route` says how files
    reach the folder from a worker that does not share it (`storage.route`); without one every worker does.
    `known_step` is the last one that the driver has; later reports, which it may have lost, come again.
    """

    id: str  # the same trial always has the same id, so posting twice is posting once
    experiment: dict[str, Any]
    folder: str
    data_root: str | None = None
    threads: int = 1
    opening: dict[str, Any] | None = None
    untrained: dict[str, float] | None = None
    known_costs: dict[str, dict[str, float]] | None = None
    route: dict[str, Any] | None = None
    known_step: int = LAST

    @classmethod
    def of(
        cls,
        order_id: str,
        experiment: Experiment,
        folder: Path,
        locations: Locations,
        threads: int = 1,
        opening: LedgerEntry | None = None,
        untrained: dict[str, float] | None = None,
        known_costs: dict[str, dict[str, float]] | None = None,
    ) -> Order:
        return cls(
            order_id,
            experiment.to_dict(),
            str(folder),
            locations.absolute_root,
            threads,
            opening.to_dict() if opening else None,
            untrained,
            known_costs,
        )


@dataclass(frozen=True)
class TrialReport:
    """One validation of one trial. `number` counts them, so that a repeated or stale one is recognised."""

    number: int
    step: int
    max_steps: int
    metrics: dict[str, float] = field(default_factory=dict)
    score: float | None = None
    best_score: float | None = None
    best_step: int = 0
    finished: bool = False
    reason: str = ""  # why it finished
    failure: str = ""  # set when the trial cannot go on: one line
    details: str = ""  # and the traceback of an unexpected error
    idle: dict[str, str] = field(default_factory=dict)  # dotted key → why it has had no effect so far
    system: dict[str, float] = field(default_factory=dict)  # load of the machine, where it is asked for
    architecture: str = ""  # of the model, and
    costs: dict[str, float] = field(default_factory=dict)  # what it costs to use, if the order wants to know

    @classmethod
    def of(
        cls,
        number: int,
        progress: Progress,
        busy_s: float,
        costs: tuple[str, dict[str, float]] = ("", {}),
        system: dict[str, float] | None = None,
    ) -> TrialReport:
        """Return the report of a validation.

        `fit_seconds` is the time of training and validation, without checkpoints, reports and waiting.
        """
        return cls(
            number=number,
            step=progress.step,
            max_steps=progress.max_steps,
            metrics=progress.metrics | {"fit_seconds": round(busy_s, 4)},
            score=progress.score,
            best_score=progress.best_score,
            best_step=progress.best_step,
            finished=progress.finished,
            reason=progress.reason,
            idle=progress.idle,
            system=system or {},
            architecture=costs[0],
            costs=costs[1],
        )

    @classmethod
    def failed(cls, reason: str, details: str = "") -> TrialReport:
        """Return the last report of a trial that cannot go on."""
        return cls(LAST, 0, 0, finished=True, reason="failed", failure=reason, details=details)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
