"""Is a store complete? Addresses inside of its folder, and every stored model in its place."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mlflow.exceptions import MlflowException

from dmltune import tags
from dmltune.artifact_addresses import misplaced_addresses
from dmltune.errors import UserError
from dmltune.store import Store
from dmltune.tracking.tracker import Run, Tracker

ProblemKind = Literal["address", "model", "artifacts"]
DATABASES = ("mlflow.db", "optuna.db")


@dataclass(frozen=True)
class StoreProblem:
    """What is wrong, with which run, and what to do."""

    kind: ProblemKind
    run: str
    text: str


@dataclass(frozen=True)
class StoreHealth:
    """What a store has, and what is wrong with it. `repaired` addresses were those of another folder."""

    store: Path | str  # a folder, or an address
    runs: int
    models: int
    size: int  # bytes
    repaired: int
    problems: tuple[StoreProblem, ...]


def examine(store: Store) -> StoreHealth:
    """Repair the addresses of a moved or copied store, then look for every stored model."""
    if not store.owns_tracking:
        raise UserError(
            "`dmltune store` is for a store with its own database; MLFLOW_TRACKING_URI names another. "
            "Unset it."
        )
    if not store.has_runs:
        raise UserError(f"no runs in {store.place} yet. Start a search, or choose another --store.")
    for name in DATABASES:
        store.require_database(name)
    outside = len(misplaced_addresses(store.root / "mlflow.db", store.artifacts))
    tracker = Tracker(store)
    runs = tracker.runs("")
    stored = [run for run in runs if run.data.tags.get(tags.MODEL) == tags.STORED]
    problems = [*_foreign(runs, store), *(problem for run in stored for problem in _model(run, tracker))]
    place = store.address or store.root
    return StoreHealth(place, len(runs), len(stored), _size(store.root), outside, tuple(problems))


def _foreign(runs: list[Run], store: Store) -> Iterator[StoreProblem]:
    """Yield the runs whose artifacts are outside of the store: someone chose another place for them."""
    for run in runs:
        folder = Tracker.local_folder(run.info.artifact_uri)
        if folder is None or not folder.is_relative_to(store.artifacts):
            text = f"its artifacts are outside of the store, at {run.info.artifact_uri}"
            yield StoreProblem("address", str(run.info.run_id), text)


def _model(run: Run, tracker: Tracker) -> Iterator[StoreProblem]:
    """Yield what is wrong with the stored model of a run."""
    run_id = str(run.info.run_id)
    place = f"the model of {run.data.tags.get(tags.NAME, '')}/{run.data.tags.get(tags.NUMBER, '')}"
    folder: Path | None = None
    with contextlib.suppress(MlflowException):
        folder = tracker.stored_at(run)
    if folder is None or not (folder / "model.safetensors").is_file():
        yield StoreProblem("model", run_id, f"{place} is missing; restore it from a backup, or train again")


def _size(folder: Path) -> int:
    return sum(file.lstat().st_size for file in folder.rglob("*") if file.is_file())
