"""The checks of a store as documents: whatever `dmltune check` and `dmltune reproduce` measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dmltune.check.finished_search import json_artifact
from dmltune.errors import UserError
from dmltune.experiment.problems import near_or_list
from dmltune.store import Store
from dmltune.tracking import Run, Tracker

DOCUMENT = "check.json"
_CHECKS = "tags.`dmltune.role` = 'check'"


@dataclass(frozen=True)
class Checked:
    """A check that has something to show: its run, and the document it keeps."""

    name: str
    run_id: str
    document: Mapping[str, Any]


def checks(store: Store, names: Sequence[str] = ()) -> list[Checked]:
    """All of the store by name, or those that are named: the check's own name or that of its search."""
    found = {one.name: one for one in finished_checks(store, names)}
    for name in names:
        if not any(name in (one.name, one.document.get("search")) for one in found.values()):
            raise UserError(f"no check '{name}' in this store{near_or_list(name, _known(store))}")
    return [found[name] for name in sorted(found)]


def finished_checks(store: Store, names: Sequence[str]) -> Iterator[Checked]:
    """Those of the named checks (all, when none is named) that have a document."""
    tracker = Tracker(store)
    for run in _runs(store, tracker):
        name = str(run.data.tags.get("dmltune.search", run.info.run_name))
        if names and not {name, run.data.tags.get("dmltune.checked")} & set(names):
            continue
        document = json_artifact(tracker, run, DOCUMENT)
        if document is not None:
            yield Checked(name, str(run.info.run_id), document)


def _known(store: Store) -> list[str]:
    runs = _runs(store, Tracker(store))
    return [str(run.data.tags.get("dmltune.search", run.info.run_name)) for run in runs]


def _runs(store: Store, tracker: Tracker) -> Iterator[Run]:
    """Parent runs of checks. A store that was never used is not made for being looked at."""
    if store.owns_tracking and not (store.root / "mlflow.db").is_file():
        return
    yield from tracker.runs(_CHECKS)
