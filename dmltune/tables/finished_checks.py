"""The finished checks of a store, with their documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dmltune import tags
from dmltune.check.document import CheckDocument
from dmltune.errors import UserError, readable
from dmltune.experiment.problems import near_or_list
from dmltune.store import Store
from dmltune.tracking import Run, Tracker

DOCUMENT = "check.json"


@dataclass(frozen=True)
class FinishedCheck:
    """A check that has figures: its run, and the document of the run."""

    name: str
    run_id: str
    document: CheckDocument


def checks(store: Store, names: Sequence[str] = ()) -> list[FinishedCheck]:
    """Return all checks, or those with these names (of the check or of its search)."""
    by_name = {check.name: check for check in finished_checks(store, names)}
    for name in names:
        if not any(name in (check.name, check.document.search) for check in by_name.values()):
            known = [_name(run) for run in _runs(Tracker(store))]
            raise UserError(f"no check {readable(name)} in this store{near_or_list(name, known)}")
    return [by_name[name] for name in sorted(by_name)]


def finished_checks(store: Store, names: Sequence[str]) -> Iterator[FinishedCheck]:
    """Yield those of the named checks (all without names) that have a document."""
    tracker = Tracker(store)
    for run in _runs(tracker):
        name = _name(run)
        if names and not {name, run.data.tags.get(tags.CHECKED)} & set(names):
            continue
        tree = tracker.read_json(run.info.run_id, DOCUMENT)
        if tree is None and run.data.tags.get(tags.STATE) == "complete":
            raise UserError(
                f"check '{name}' is complete, and its artifact {DOCUMENT} is missing. "
                "Put the store back to its place, or restore it from a backup."
            )
        if tree is not None:
            place = f"{DOCUMENT} of run {run.info.run_id}"
            yield FinishedCheck(name, str(run.info.run_id), CheckDocument.from_dict(tree, place))


def _name(run: Run) -> str:
    return str(run.data.tags.get(tags.NAME, run.info.run_name))


def _runs(tracker: Tracker) -> Iterator[Run]:
    """Yield the parent runs of checks."""
    yield from tracker.runs(f"tags.`{tags.ROLE}` = 'check'")
