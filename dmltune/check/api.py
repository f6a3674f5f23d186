"""`dmltune.check`: the winner of a search against the baseline on unseen classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from dmltune.check.baseline_search import baseline_name, tuned_baseline
from dmltune.check.configurations import BASELINE, Configuration, changed, key_of_label, of_search
from dmltune.check.document import CheckDocument
from dmltune.check.finished_search import FinishedSearch, load_finished_search
from dmltune.check.plan import CheckRequest, PreparedCheck, prepare_check
from dmltune.check.session import CheckResult, run_check
from dmltune.core.reranking import require_method
from dmltune.errors import UserError
from dmltune.experiment.loading import parse_overrides
from dmltune.resources import Locations, Resources
from dmltune.search.state import Watch
from dmltune.store import Store, validated_name
from dmltune.tracking import Tracker
from dmltune.train.build import training_images
from dmltune.worker_resources import ANY, WorkerResources

__all__ = ["CheckResult", "PreparedCheck", "check", "prepare"]


def check(
    search: str,
    *,
    top: int = 1,
    repeats: int | None = None,
    folds: int | None = None,
    fair_baseline: bool = False,
    name: str | None = None,
    overrides: Sequence[str] = (),
    clustering: bool = False,
    rerank: str = "",
    workers: int = 1,
    concurrent: int | None = None,
    address: str | None = None,
    per_worker: WorkerResources = ANY,
    store: Store | None = None,
    data_root: Path | None = None,
    log: Callable[[str], None] = lambda text: None,
    watch: Watch | None = None,
) -> CheckResult:
    """Train the best trials, the reference point and the baseline; compare on test classes.

    Each, also of the `top` best trials, gets folds × `repeats` models (default: all folds, 3 repeats). The
    same `name`, by default SEARCH-check, continues where it was stopped. With `clustering` NMI and F1 are
    measured too, with `rerank` (core.reranking.METHODS) what re-ranking adds. With `fair_baseline` the
    baseline first gets a search of its own, as long as the one that is checked; `watch` shows its state.
    Every opening of the test classes is written into the store's test ledger.
    """
    if rerank:
        require_method(rerank)
    resources = Resources(workers, concurrent, address, per_worker=per_worker)
    locations = Locations(store or Store.at(), data_root)
    tuned = None
    if fair_baseline:
        finished = load_finished_search(search, Tracker(locations.store))
        own_name = name_of(search, name)
        tuned = tuned_baseline(finished, resources, locations, log, watch)
        if tuned is None:
            return CheckResult(_stopped(own_name, finished), locations.store.search_folder(own_name))
    prepared = prepare(
        search,
        top=top,
        repeats=repeats,
        folds=folds,
        name=name,
        overrides=overrides,
        clustering=clustering,
        rerank=rerank,
        store=locations.store,
        data_root=data_root,
        tuned=tuned,
    )
    return run_check(prepared, resources, locations, log)


def prepare(
    search: str,
    *,
    top: int = 1,
    repeats: int | None = None,
    folds: int | None = None,
    name: str | None = None,
    overrides: Sequence[str] = (),
    clustering: bool = False,
    rerank: str = "",
    store: Store,
    data_root: Path | None = None,
    tuned: Configuration | None = None,
) -> PreparedCheck:
    """Validate all that can be before Ray starts. `tuned` replaces the baseline."""
    finished = load_finished_search(search, Tracker(store))
    configurations = changed(of_search(finished, top, tuned), overrides)
    request = CheckRequest(
        name=name_of(search, name),
        configurations=tuple(configurations),
        baseline=key_of_label(configurations, BASELINE),
        space_name=finished.space_name,
        study=search,
        why=f"check of search {search}",
        folds=folds,
        repeats=repeats,
        search=finished,
        baseline_search=baseline_name(finished) if tuned else "",
        own_patience=bool({"patience", "validate_every"} & set(parse_overrides(overrides))),
        clustering=clustering,
        rerank=rerank,
    )
    locations = Locations(store, data_root)
    prepared = prepare_check(request, locations)
    if prepared.new:
        images = training_images(finished.experiment.reference_experiment(), locations.absolute_root)
        if images.fingerprint != finished.fingerprint:
            raise UserError(
                f"search '{finished.name}' had other data: fingerprint {finished.fingerprint} → "
                f"{images.fingerprint}. Give the --data-root of the search, or search again."
            )
    return prepared


def name_of(search: str, name: str | None) -> str:
    return validated_name(name or f"{search}-check")


def _stopped(name: str, finished: FinishedSearch) -> CheckDocument:
    """Return the document of a check without a plan: its baseline search was stopped."""
    return CheckDocument(
        name=name,
        space_name=finished.space_name,
        data=finished.experiment.data.name,
        fingerprint="",
        protocol=finished.protocol,
        folds=0,
        repeats=0,
        search=finished.name,
        stopped=True,
        baseline_search=baseline_name(finished),
    )
