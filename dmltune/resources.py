"""Where trials run, and where their data and results are: two values that travel together."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from dmltune.errors import UserError
from dmltune.store import Store
from dmltune.worker_resources import WorkerResources


@dataclass(frozen=True)
class Resources:
    """How wide a trial is, how many run at a time, and on which Ray cluster (None: this machine alone).

    `in_process` trains fixed experiments in this process, one after another, without Ray.
    """

    workers: int = 1
    concurrent: int | None = None  # as many as cores or GPUs allow
    address: str | None = None
    isolation: Literal["slot", "trial"] = "slot"  # slot: warm workers serve trial after trial
    in_process: bool = False
    per_worker: WorkerResources = field(default_factory=WorkerResources)

    def __post_init__(self) -> None:
        for option, value in (("--workers", self.workers), ("--concurrent", self.concurrent)):
            if value is not None and value < 1:
                raise UserError(f"{option} must be at least 1; got {value}")
        if self.workers > 1 and 0 < (self.per_worker.gpus or 0) < 1:
            raise UserError(
                f"workers of one trial cannot share a GPU; got --gpus-per-worker {self.per_worker.gpus:g} "
                f"and --workers {self.workers}. Use --workers 1, or whole GPUs."
            )


@dataclass(frozen=True)
class Locations:
    """The store of results, and the folder that holds the data sets (None: $DMLTUNE_DATA)."""

    store: Store = field(default_factory=Store.at)
    data_root: Path | None = None

    @property
    def absolute_root(self) -> str | None:
        """The data root as workers need it: they have other working directories."""
        return str(Path(self.data_root).absolute()) if self.data_root else None
