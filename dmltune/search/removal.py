"""Remove a search: its trials' runs, its study, its folder, and last its own run.

The order makes a removal that was interrupted repeatable: as long as the search's own run is there, the
search is found. The test ledger stays, whatever the search has opened, and so do checks, which are studies of
their own.
"""

from __future__ import annotations

from dataclasses import dataclass

from dmltune import tags
from dmltune.errors import UserError
from dmltune.search.stored import StoredSearch, StoredSearches
from dmltune.search.study import delete_study
from dmltune.tracking import Run
from dmltune.train.name_claim import hold_name


@dataclass(frozen=True)
class Removal:
    """What is removed, or would be. `checks` of the search stay."""

    name: str
    trials: int
    runs: int
    size: int  # bytes of the search's folder and its models
    checks: tuple[str, ...]


def planned_removal(searches: StoredSearches, search: StoredSearch) -> Removal:
    """Return what `remove` would remove; a search that runs is a UserError."""
    if search.status == "running":
        raise UserError(f"'{search.name}' is running. Stop it first: dmltune stop {search.name}")
    tracker = searches.tracker
    runs = [tracker.client.get_run(search.run_id), *_children(search)]
    folders = [searches.store.search_folder(search.name)]
    folders += [folder for run in runs for folder in tracker.folders(run)]
    files = (file for folder in folders for file in folder.rglob("*"))
    size = sum(file.lstat().st_size for file in files if file.is_file())
    checked = tracker.runs(f"tags.`{tags.CHECKED}` = '{search.name}' and tags.`{tags.ROLE}` = 'check'")
    names = sorted({str(run.data.tags.get(tags.NAME, run.info.run_name)) for run in checked})
    return Removal(search.name, len(search.trials), len(runs), size, tuple(names))


def remove(searches: StoredSearches, search: StoredSearch) -> Removal:
    """Remove the search for ever; a UserError while it runs."""
    removal = planned_removal(searches, search)
    store, name = searches.store, search.name
    with hold_name(store, name, f"Stop it first: dmltune stop {name}"):
        for run in _children(search):
            searches.tracker.delete_run(str(run.info.run_id))
        searches.tracker.delete_registered(name)
        delete_study(store, name)
        store.discard(store.search_folder(name))
        searches.tracker.delete_run(search.run_id)
    return removal


def _children(search: StoredSearch) -> list[Run]:
    tracker = search.tracker
    return tracker.children(tracker.client.get_run(search.run_id))
