"""The links of `dmltune ui`: views of MLflow's pages that are ready when they open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dmltune import tags
from dmltune.errors import UserError

if TYPE_CHECKING:
    from dmltune.search.stored import StoredSearch, StoredSearches
    from dmltune.tracking import Run, Tracker


@dataclass(frozen=True)
class UiLinks:
    """Addresses of MLflow's pages. Without a name there is nothing but the address itself."""

    address: str
    name: str = ""
    table: str = ""
    charts: str = ""
    run: str = ""
    model: str = ""

    @property
    def first(self) -> str:
        """The page to open."""
        return self.table or self.address

    def lines(self) -> list[str]:
        shown = (
            (self.table, f"{self.name}: its trials, best first"),
            (self.charts, "the same as charts"),
            (self.run, "question, verdict, files"),
            (self.model, "the model, champion and challenger"),
        )
        return [line for link, what in shown if link for line in (f"{what}:", f"  {link}")]


def links_of(searches: StoredSearches, name: str | None, address: str) -> UiLinks:
    """Write the view of this name (default: of the latest search) to the store and return its links."""
    from dmltune.tracking.views import model_link, run_link, view_link

    search = _search(searches, name)
    if search is not None:
        run = searches.tracker.client.get_run(search.run_id)
        name, view = search.name, _view_of(search)
    elif name is None:
        return UiLinks(address)
    else:
        run = _named(searches.tracker, name)
        name, view = run.data.tags[tags.NAME], _plain_view(run, searches.tracker)
    experiment_id = str(run.info.experiment_id)
    searches.tracker.share_view(experiment_id, name, view)
    return UiLinks(
        address,
        name,
        view_link(address, experiment_id, name),
        view_link(address, experiment_id, name, charts=True),
        run_link(address, experiment_id, run.info.run_id),
        model_link(address, name) if searches.tracker.is_registered(name) else "",
    )


def _search(searches: StoredSearches, name: str | None) -> StoredSearch | None:
    """Return the search of this name, or the latest one; None for a name of something else."""
    found = searches.all()
    if name is None:
        return found[-1] if found else None
    return next((search for search in found if search.name == name), None)


def _named(tracker: Tracker, name: str) -> Run:
    run = tracker.find(name)
    if run is None or tags.NAME not in run.data.tags:
        raise tracker.unknown("search, training, check or run", name)
    return run


def _view_of(search: StoredSearch) -> dict[str, Any]:
    """Return the view of a search; its most important numbers, where known, come first."""
    from dmltune.search.importance import importances
    from dmltune.search.result_run import NUMBERS, view_of

    numbers = [each.name for each in search.experiment.space.parameters if each.kind in NUMBERS]
    try:
        ranked = [each.name for each in importances(search).parameters]
        numbers = sorted(numbers, key=lambda key: ranked.index(key) if key in ranked else len(ranked))
    except UserError:  # too few trials to say
        pass
    return view_of(search.experiment, search.name, numbers)


def _plain_view(run: Run, tracker: Tracker) -> dict[str, Any]:
    from dmltune.tracking.views import plain_view

    runs = [run, *tracker.children(run)]
    best = [key for each in runs for key in each.data.metrics if key.startswith("best_")]
    return plain_view(run.data.tags[tags.NAME], best[0].removeprefix("best_") if best else "map_at_r")
